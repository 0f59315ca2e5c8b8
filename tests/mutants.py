"""Break one guard at a time in a copy of the source, and see that a test fails for each.

    python -m tests.mutants              all of them
    python -m tests.mutants fence lock   those whose name has one of these words

A mutant names the tests that must notice it. They are run unbroken first: a test that fails anyway notices nothing.
Exit code 0 if every mutant is caught.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv", "var", "__pycache__", ".*_cache", ".hypothesis")


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    file: str
    guard: str
    broken: str
    tests: tuple[str, ...]
    database: str = "sqlite"


MUTANTS = (
    Mutant(
        "tenant's limit: sessions and requests are counted without the lock of its row",
        "cayu_runtime/core/limits.py",
        "return Tenant.objects.select_for_update(no_key=True).get(pk=tenant)",
        "return Tenant.objects.get(pk=tenant)",
        ("tests/race/test_limits.py",),
        "postgres",
    ),
    Mutant(
        "look: a claim that a colleague holds is taken over",
        "cayu_review/services/claim.py",
        "return Claim.objects.filter(free, approval=found).update(**values) == 1",
        "return Claim.objects.filter(approval=found).update(**values) == 1",
        ("tests/db/test_claims.py",),
    ),
    Mutant(
        "look: who may not decide claims",
        "cayu_review/services/claim.py",
        'authority.require(actor, "claim", found)\n    if found.state',
        'authority.require(actor, "view", tenant)\n    if found.state',
        ("tests/db/test_claims.py",),
    ),
    Mutant(
        "sign-in: a token for several audiences needs no authorised party",
        "cayu_review/oidc/token.py",
        "if party != provider.client_id and (several or party is not None):",
        "if party != provider.client_id and party is not None:",
        ("tests/web/test_oidc_lies.py",),
    ),
    Mutant(
        "sign-in: userinfo may be about somebody else",
        "cayu_review/oidc/token.py",
        'if not isinstance(answer, dict) or answer.get("sub") != claims["sub"]:',
        "if not isinstance(answer, dict):",
        ("tests/web/test_oidc_lies.py",),
    ),
    Mutant(
        "sign-in: any nonce will do",
        "cayu_review/oidc/token.py",
        'if not isinstance(claims["nonce"], str) or not nonce or not constant_time_compare(claims["nonce"], nonce):',
        'if not isinstance(claims["nonce"], str):',
        ("tests/web/test_oidc_lies.py",),
    ),
    Mutant(
        "sign-in: an account that is switched off stays in",
        "cayu_review/oidc/backend.py",
        "return ModelBackend.get_user(self, user_id)",
        "return self.UserModel.objects.filter(pk=user_id).first()",
        ("tests/web/test_oidc.py",),
    ),
    Mutant(
        "sign-in: who comes back as somebody else decides",
        "cayu_review/views/oidc.py",
        'if self.kept["again"] != str(self.user.pk):',
        'if not self.kept["again"]:',
        ("tests/web/test_step_up.py",),
    ),
    Mutant(
        "sign-in: an old one decides what can't be undone",
        "cayu_review/selectors/identity.py",
        "if authenticated_at is not None:",
        "if authenticated_at is None:",
        ("tests/web/test_step_up.py",),
    ),
    Mutant(
        "fence: a lost lease may still write",
        "cayu_runtime/core/transitions.py",
        "if fence is not None and (row.fence != fence or row.state not in states.LEASED):",
        "if fence is not None and row.state not in states.LEASED:",
        ("tests/db/test_transitions.py", "tests/db/test_recovery.py"),
    ),
    Mutant(
        "fence: a claim does not raise it",
        "cayu_runtime/core/lease.py",
        "fence = row.fence + 1",
        "fence = row.fence",
        ("tests/db/test_recovery.py",),
    ),
    Mutant(
        "where: a row is moved whatever its state",
        "cayu_runtime/core/transitions.py",
        'guard = {"id": row.pk, "state": row.state}',
        'guard = {"id": row.pk}',
        ("tests/db/test_transitions.py",),
    ),
    Mutant(
        "where: the row count of a move is not looked at",
        "cayu_runtime/core/transitions.py",
        "if update(kind, values, guard) != 1:",
        "if update(kind, values, guard) > 1:",
        ("tests/db/test_transitions.py",),
    ),
    Mutant(
        "states: an illegal move is made",
        "cayu_runtime/core/transitions.py",
        "if not machine.allows(source, to):",
        "if False:",
        ("tests/db/test_transitions.py", "tests/db/test_moves.py"),
    ),
    Mutant(
        "lock: two transitions of one session at a time",
        "cayu_runtime/core/transitions.py",
        " FOR NO KEY UPDATE) s",
        ") s",
        ("tests/race/test_decisions.py",),
        "postgres",
    ),
    Mutant(
        "chain: an event's hash leaves out the one before",
        "cayu_runtime/core/transitions.py",
        "hashlib.sha256(previous + canonical(content))",
        "hashlib.sha256(canonical(content))",
        ("tests/db/test_event_chain.py",),
    ),
    Mutant(
        "tenant: another tenant's session is moved",
        "cayu_runtime/core/transitions.py",
        "if tenant is not None:",
        "if False:",
        ("tests/db/test_transitions.py",),
    ),
    Mutant(
        "digest: a decision of another digest counts",
        "cayu_runtime/core/decisions.py",
        "if answer.digest != approval.intent_digest:",
        "if False:",
        ("tests/db/test_lifecycle.py",),
    ),
    Mutant(
        "version: a decision about an older version counts",
        "cayu_runtime/core/decisions.py",
        "if answer.version != approval.version:",
        "if False:",
        ("tests/db/test_lifecycle.py",),
    ),
    Mutant(
        "decision: what is decided is decided again",
        "cayu_runtime/core/decisions.py",
        'if work is None or approval.state != "pending":',
        "if work is None:",
        ("tests/db/test_lifecycle.py", "tests/db/test_recovery.py"),
    ),
    Mutant(
        "deadline: a late decision counts",
        "cayu_runtime/core/decisions.py",
        "if approval.expires_at <= change.now:",
        "if False:",
        ("tests/db/test_lifecycle.py", "tests/db/test_sweep.py"),
    ),
    Mutant(
        "deadline: an approval that is over is dispatched",
        "cayu_runtime/core/dispatch.py",
        "if approval.expires_at <= change.now:",
        "if False:",
        ("tests/db/test_lifecycle.py", "tests/db/test_interleavings.py"),
    ),
    Mutant(
        "deadline: judged by this process's clock",
        "cayu_runtime/core/transitions.py",
        "return read.row(found[0][:-1]), clock.moment(found[0][-1])",
        "return read.row(found[0][:-1]), datetime.now(clock.UTC)",
        ("tests/db/test_recovery.py", "tests/race/test_clock.py"),
    ),
    Mutant(
        "digest: other content is dispatched",
        "cayu_runtime/core/dispatch.py",
        "return intent == call.intent_digest and (effect is None or effect.intent_digest == intent)",
        "return True",
        ("tests/db/test_interleavings.py",),
    ),
    Mutant(
        "approval: dispatched without a live one",
        "cayu_runtime/core/dispatch.py",
        'return approval is not None and approval.state == "approved" and approval.intent_digest == call.intent_digest',
        "return True",
        ("tests/db/test_interleavings.py", "tests/db/test_reviewed.py"),
    ),
    Mutant(
        "approval: not used up by its dispatch",
        "cayu_runtime/core/dispatch.py",
        'change.move(approval, "consumed")',
        "pass",
        ("tests/db/test_edits.py",),
    ),
    Mutant(
        "kill switch: T3 does not read it",
        "cayu_runtime/core/dispatch.py",
        "if _is_paused(change, call, found):",
        "if False:",
        ("tests/db/test_stop_and_pause.py",),
    ),
    Mutant(
        "policy: what it forbids by now is dispatched",
        "cayu_runtime/core/dispatch.py",
        '    if refusal:\n        block_call(change, call, effect, approval, "policy", refusal)',
        '    if False:\n        block_call(change, call, effect, approval, "policy", refusal)',
        ("tests/db/test_interleavings.py",),
    ),
    Mutant(
        "once: an EXTERNAL call is repeated",
        "cayu_runtime/core/dispatch.py",
        "return call.effect_class == ToolEffect.IDEMPOTENT and call.runs",
        "return call.runs",
        ("tests/db/test_recovery.py",),
    ),
    Mutant(
        "once: an IDEMPOTENT call is repeated without end",
        "cayu_runtime/core/dispatch.py",
        "MAX_RUNS = 2",
        "MAX_RUNS = 4",
        ("tests/db/test_recovery.py",),
    ),
    Mutant(
        "once: T3 without acknowledgement runs without looking",
        "cayu_runtime/core/execution.py",
        "if not (ours and committed and effect and effect.deadline and clock.now() < effect.deadline):",
        "if not (effect and effect.deadline):",
        ("tests/db/test_recovery.py",),
    ),
    Mutant(
        "once: a receipt that was not acknowledged is settled twice",
        "cayu_runtime/core/execution.py",
        "if dispatch is not None and all(_is_settled_by(dispatch, call) for call, _ in ended):",
        "if False:",
        ("tests/db/test_receipted.py",),
    ),
    Mutant(
        "once: an uncertain EXTERNAL action does not hold its equals",
        "cayu_runtime/core/dispatch.py",
        "if found.uncertain is not None and external:",
        "if False:",
        ("tests/db/test_repetition.py",),
    ),
    Mutant(
        "proof: any absence leads to a retry",
        "cayu_runtime/core/reconciliation.py",
        "return Finding.ABSENT if proved else Finding.NOT_FOUND",
        "return Finding.ABSENT",
        ("tests/db/test_reconciliation.py",),
    ),
    Mutant(
        "proof: an absence counts while its dispatch may still arrive",
        "cayu_runtime/core/reconciliation.py",
        "attempt.admitted_at > last",
        "True",
        ("tests/db/test_reconciliation.py",),
    ),
    Mutant(
        "proof: a worker that ended after the look was gone",
        "cayu_runtime/services/effect.py",
        "        executor,\n",
        "        executor_of(effect),\n",
        ("tests/db/test_reconciliation.py",),
    ),
    Mutant(
        "proof: an effect that changed meanwhile is settled",
        "cayu_runtime/core/reconciliation.py",
        'if attempt.state != "admitted" or effect.revision != admitted.effect.revision:',
        "if False:",
        ("tests/db/test_reconciliation.py", "tests/db/test_receipted.py"),
    ),
    Mutant(
        "late: any dispatch settles",
        "cayu_runtime/core/late.py",
        "ours = effect.dispatch_id == dispatch.dispatch_id",
        "ours = True",
        ("tests/db/test_abandonment.py",),
    ),
    Mutant(
        "four eyes: who asked may approve",
        "cayu_review/permissions.py",
        "if approval.four_eyes and approval.requester == actor.subject:",
        "if False:",
        ("tests/unit/test_permissions.py",),
    ),
    Mutant(
        "plan: another plan than the one that was read is executed",
        "cayu_runtime/core/repair.py",
        "if plan.digest != digest:",
        "if False:",
        ("tests/db/test_recovery_plan.py",),
    ),
    Mutant(
        "quarantine: dispatch opens while something is unknown",
        "cayu_runtime/services/quarantine.py",
        "if holding:",
        "if False:",
        ("tests/db/test_quarantine_release.py",),
    ),
)


def main() -> int:
    words = sys.argv[1:]
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="cayu-mutants-") as folder:
        copy = Path(folder) / "source"
        shutil.copytree(ROOT, copy, ignore=LEFT_BEHIND)
        for database in sorted({m.database for m in chosen}):
            tests = sorted({test for m in chosen if m.database == database for test in m.tests})
            failed = run(copy, tests, database)
            if failed:
                print(f"These tests fail without any mutant:\n{failed}")
                return 1
        survivors = [m.name for m in chosen if not caught(copy, m)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants caught")
    return 1 if survivors else 0


def caught(copy: Path, mutant: Mutant) -> bool:
    file = copy / mutant.file
    source = file.read_text()
    if source.count(mutant.guard) != 1:
        print(
            f"MISSING   {mutant.name}: its guard stands {source.count(mutant.guard)} times in {mutant.file}", flush=True
        )
        return False
    file.write_text(source.replace(mutant.guard, mutant.broken))
    try:
        failed = run(copy, mutant.tests, mutant.database)
    finally:
        file.write_text(source)
    print(f"caught    {mutant.name}: {failed}" if failed else f"SURVIVED  {mutant.name}", flush=True)
    return bool(failed)


def run(copy: Path, tests: list[str] | tuple[str, ...], database: str) -> str:
    """The first test that fails, empty if none does."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-rfE",
        "--show-capture=no",
        "--tb=no",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, f"--database={database}", *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0] if lines else (done.stdout + done.stderr)[-300:]


if __name__ == "__main__":
    sys.exit(main())
