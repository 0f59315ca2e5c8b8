from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_runtime.api.effect import EffectShown, ReconciliationShown
from cayu_runtime.contracts import Actor
from cayu_runtime.contracts.reconciler import MAX_RECEIPT
from cayu_runtime.core import canonical
from cayu_runtime.core.reconciliation import Reconciled
from cayu_runtime.management import shell
from cayu_runtime.models import Attempt, EffectRecord, Tenant
from cayu_runtime.selectors.effect import UNCERTAIN, attempts_of, find_in_any_tenant, uncertain
from cayu_runtime.services.effect import Seen, look_up_effect, supply_receipt, ways_to_settle
from cayu_runtime.services.session import abandon_session

LIMIT = 100
MEANS = {
    "proposed": "It was not sent, and waits for a decision.",
    "authorized": "It was approved and not sent yet.",
    "intent_recorded": "It is being sent, or its worker was lost; then it becomes unknown.",
    "receipted": "Its receipt is held; a worker verifies it next.",
    "completed": "It happened; the receipt is on record.",
    "rejected": "It did not happen.",
    "abandoned": "It was never sent.",
    "outcome_unknown": "It was sent, and nobody knows whether it happened. It is never sent again by itself.",
    "manual_review": "Nobody knows whether it happened, and what was found so far does not settle it.",
    "safe_to_retry": "It did not happen and can't any more. Approving it once more sends it once more.",
}


class Command(BaseCommand):
    help = (
        "Effects of which nobody knows whether they happened: list them, and settle them by evidence. A lookup or a "
        "receipt never sends the action again; what proves that it did not happen asks for a fresh approval."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|lookup|receipt|abandon")
        waiting = actions.add_parser("list", help="what is uncertain, longest first")
        shell.add_scope(waiting)
        waiting.add_argument("--limit", type=int, default=LIMIT, help="at most so many (default: %(default)s)")
        show = _about_one(actions, "show", "all that is known of one effect, and what may settle it")
        look = _about_one(actions, "lookup", "ask the receiving system by the operation's own key")
        receipt = _about_one(actions, "receipt", "have the tool's reconciler judge a receipt")
        receipt.add_argument("file", help=f"JSON of at most {MAX_RECEIPT // 1024} KiB; - reads standard input")
        abandon = _about_one(actions, "abandon", "give its session up: it fails, and the effect stays uncertain")
        for asks in (look, receipt):
            asks.add_argument("--seen", default="", metavar="REVISION:DISPATCH", help="as `effects show` printed it")
        for writes in (look, receipt, abandon):
            shell.add_person(writes)
        for each in (waiting, show, look, receipt, abandon):
            shell.add_json(each)

    def handle(self, *args: Any, **options: Any) -> None:
        with shell.refusals(self, options):
            getattr(self, f"_{options['action']}")(options)

    def _list(self, options: dict[str, Any]) -> None:
        limit, found = shell.limit(options), list[tuple[Tenant, EffectRecord]]()
        for tenant in shell.tenants(options):
            found += [(tenant, effect) for effect in uncertain(tenant, limit=limit + 1 - len(found))]
            if len(found) > limit:
                break
        shown, more = found[:limit], len(found) > limit
        data = {"effects": [_in_short(*row) for row in shown], "more": more}
        shell.say(self, options, data, _listed(shown, more=more))

    def _show(self, options: dict[str, Any]) -> None:
        effect = _find(options)
        data = {
            **EffectShown(effect).data,
            "tenant": effect.tenant.slug,
            "verb": effect.call.verb,
            "target": effect.call.target,
            "arguments": effect.call.arguments,
            "seen": _seen_of(effect),
        }
        shell.say(self, options, data, _told(effect))

    def _lookup(self, options: dict[str, Any]) -> None:
        self._reconcile(options, look_up_effect)

    def _receipt(self, options: dict[str, Any]) -> None:
        receipt = _receipt(options["file"])
        self._reconcile(options, partial(supply_receipt, receipt=receipt))

    def _abandon(self, options: dict[str, Any]) -> None:
        effect = _find(options)
        session = abandon_session(
            effect.tenant, _actor(options, effect), effect.session.session_id, reason=options["reason"]
        )
        after = _find(options)
        data = {"session_id": session.session_id, "session": session.state, "effect": EffectShown(after).data}
        lines = [
            f"Session {session.session_id} was given up; it is {session.state}.",
            f"{after.state}: {MEANS[after.state]}",
        ]
        shell.say(self, options, data, lines)

    def _reconcile(self, options: dict[str, Any], ask: Callable[..., Reconciled]) -> None:
        effect = _find(options)
        actor, reason = _actor(options, effect), shell.reason(options)
        done = ask(effect.tenant, actor, effect.pk, _seen(options, effect), reason=reason)
        after = _find(options)
        facts = {"finding": done.finding, "message": done.message, "attempt": done.attempt.id, "replay": done.replay}
        shell.say(self, options, ReconciliationShown({**facts, "effect": after}).data, _found(done, after))
        shell.leave(shell.ATTENTION if after.state in UNCERTAIN else shell.OK)


def _about_one(actions: Any, name: str, what: str) -> CommandParser:
    parser: CommandParser = actions.add_parser(name, help=what)
    parser.add_argument("effect", help="the effect's id, from `effects list`")
    return parser


def _find(options: Mapping[str, Any]) -> EffectRecord:
    try:
        effect = find_in_any_tenant(UUID(options["effect"]))
    except ValueError:
        raise CommandError(
            f"{options['effect']!r} is no id of an effect. `manage.py effects list --all-tenants` prints the ids."
        ) from None
    if effect is None:
        raise CommandError(
            f"There is no effect {options['effect']}. `manage.py effects list --all-tenants` prints those that wait."
        )
    return effect


def _actor(options: Mapping[str, Any], effect: EffectRecord) -> Actor:
    return shell.person(options, effect.tenant)


def _seen_of(effect: EffectRecord) -> str:
    return f"{effect.revision}:{effect.dispatch_id or '-'}"


def _seen(options: Mapping[str, Any], effect: EffectRecord) -> Seen:
    """What the person says that they saw. Whether it is still so, the transaction decides."""
    given = options["seen"]
    show = f"`manage.py effects show {effect.pk}`"
    if not given:
        raise CommandError(f"Say what you saw: run {show}, read it, and repeat the --seen that it prints.")
    revision, _, dispatch = given.partition(":")
    try:
        if not (revision.isascii() and revision.isdecimal() and len(revision) < 10):
            raise ValueError
        return Seen(int(revision), None if dispatch == "-" else UUID(dispatch))
    except ValueError:
        raise CommandError(f"--seen {given!r} is not REVISION:DISPATCH. Copy it from {show}.") from None


def _receipt(name: str) -> dict[str, Any]:
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MAX_RECEIPT + 1)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(MAX_RECEIPT + 1)
    except OSError as problem:
        raise CommandError(f"The receipt can't be read from {name}: {problem.strerror or problem}.") from None
    if len(raw) > MAX_RECEIPT:
        raise CommandError(
            f"The receipt is larger than {MAX_RECEIPT // 1024} KiB. Give what the receiving system sent."
        )
    try:
        parsed = canonical.parse(raw)
    except canonical.NotCanonical as problem:
        raise CommandError(f"The receipt can't be used: {problem}") from None
    if not isinstance(parsed, dict):
        raise CommandError("The receipt must be one JSON object, as the receiving system gave it.")
    return parsed


def _in_short(tenant: Tenant, effect: EffectRecord) -> dict[str, Any]:
    return {
        "id": effect.pk,
        "tenant": tenant.slug,
        "session_id": effect.session.session_id,
        "tool": effect.tool,
        "verb": effect.call.verb,
        "target": effect.call.target,
        "effect_class": effect.effect_class,
        "state": effect.state,
        "unknown_since": effect.unknown_since,
        "session": effect.session.state,
        "seen": _seen_of(effect),
    }


def _listed(found: list[tuple[Tenant, EffectRecord]], *, more: bool) -> Iterator[str]:
    if not found:
        yield "Nothing is uncertain."
    for tenant, effect in found:
        since = f"{effect.unknown_since:%Y-%m-%d %H:%M:%S} UTC"
        yield f"{effect.pk}  {tenant.slug}  {effect.state} since {since}  {_named(effect)}"
    if more:
        yield "There are more; raise --limit."


def _named(effect: EffectRecord) -> str:
    call = effect.call
    return f"{call.verb or call.tool} {call.target}".strip() + f"  (session {effect.session.session_id})"


def _told(effect: EffectRecord) -> Iterator[str]:
    call = effect.call
    yield f"{effect.state}: {MEANS[effect.state]}"
    yield ""
    facts = {
        "effect": effect.pk,
        "tenant": effect.tenant.slug,
        "session": f"{effect.session.session_id} ({effect.session.interruption or effect.session.state})",
        "action": f"{call.verb or call.tool} {call.target}".strip(),
        "tool": f"{call.tool}, version {call.tool_version}, {effect.effect_class}",
        "operation": effect.operation_id,
        "arguments": json.dumps(call.arguments, ensure_ascii=False, sort_keys=True),
        "dispatched": f"{effect.dispatches} ×, last at {effect.dispatched_at:%Y-%m-%d %H:%M:%S} UTC"
        if effect.dispatched_at
        else "never",
        "receipt": json.dumps(effect.receipt, ensure_ascii=False) if effect.receipt else "none",
        "verified": effect.verification or "no",
    }
    yield from (f"{name:<11}{value}" for name, value in facts.items())
    yield ""
    for attempt in attempts_of(effect):
        yield f"{attempt.admitted_at:%Y-%m-%d %H:%M:%S} UTC  {attempt.kind} {attempt.state}: {_what_came(attempt)}"
    if effect.state in UNCERTAIN:
        yield ""
        yield from _ways(effect)


def _what_came(attempt: Attempt) -> str:
    evidence = attempt.evidence or {}
    said = [str(evidence[name]) for name in ("outcome", "classification", "message") if evidence.get(name)]
    by = f" (by {attempt.actor}: {attempt.reason})" if attempt.reason else ""
    return (", ".join(said) or "no answer on record") + by


def _ways(effect: EffectRecord) -> Iterator[str]:
    ways, asks = ways_to_settle(effect), f"--seen {_seen_of(effect)} --as USERNAME --reason TEXT"
    if ways.looks_up:
        yield f"To ask the receiving system:  manage.py effects lookup {effect.pk} {asks}"
    if ways.takes_receipts:
        yield f"If you have its receipt:      manage.py effects receipt {effect.pk} FILE {asks}"
    if not (ways.looks_up or ways.takes_receipts):
        yield "Its tool has no reconciler in this deployment, so no evidence can be judged here."
    if effect.session.state not in ("completed", "failed"):
        yield f"To give its session up:       manage.py effects abandon {effect.pk} --as USERNAME --reason TEXT"


def _found(done: Reconciled, after: EffectRecord) -> Iterator[str]:
    yield f"{'Asked before: ' if done.replay else ''}{done.finding}. {done.message}".strip()
    yield f"{after.state}: {MEANS[after.state]}"
    yield f"Its session is {after.session.interruption or after.session.state}."
