"""`recovery plan|execute|sweep`: what is in a session's way, and carrying out what can be repaired."""

from __future__ import annotations

import uuid
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ..core.plan import Blocker, Plan, Repair
from ..core.repair import Executed
from ..errors import CayuError
from ..models import Tenant
from ..selectors.recovery import PAGE
from ..selectors.session import find_session
from ..services.recovery import SETTLED_SECONDS, Answer, execute_recovery, plan_page, plan_recovery, sweep
from . import shell

Options = Mapping[str, Any]
Cursor = tuple[str, uuid.UUID]
BEGINNING = uuid.UUID(int=0)
FINE = ("running", "runnable", "ended", "client_execution")


def add_to(subparsers: Any) -> None:
    """Register the three with a command's subparsers; each sets `handler`."""
    plan = subparsers.add_parser("plan", help="show what is in the way of a session, or of all that have not ended")
    plan.add_argument("session", nargs="?", default="", help="its id (default: all that have not ended, page by page)")
    _add_page(plan, settled=0.0)
    _finish(plan, _plan)
    execute = subparsers.add_parser("execute", help="carry out exactly the plan that was read")
    execute.add_argument("session", help="the session's id")
    execute.add_argument("digest", help="the plan's digest, as `recovery plan` printed it")
    shell.add_person(execute)
    _finish(execute, _execute)
    many = subparsers.add_parser(
        "sweep", help="carry out the repairs of all sessions in which nothing moved for a while"
    )
    _add_page(many, settled=SETTLED_SECONDS)
    shell.add_person(many)
    _finish(many, _sweep)


def _add_page(parser: CommandParser, settled: float) -> None:
    parser.add_argument(
        "--settled",
        type=float,
        default=settled,
        metavar="SECONDS",
        help="only sessions in which nothing moved for so long (default: %(default)s)",
    )
    parser.add_argument("--limit", type=int, default=PAGE, help="sessions of one page (default and most: %(default)s)")
    parser.add_argument("--pages", type=int, default=0, help="stop after so many pages (default: at the end)")
    parser.add_argument("--after", type=_cursor, metavar="CURSOR", help="go on where an earlier run stopped")


def _cursor(text: str) -> Cursor:
    slug, _, row = text.rpartition(":")
    try:
        return slug, uuid.UUID(row)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no cursor. Give the one that the earlier run printed last.") from None


def _finish(parser: CommandParser, handler: Callable[[BaseCommand, Options], None]) -> None:
    shell.add_scope(parser)
    shell.add_json(parser)
    parser.set_defaults(handler=handler)


def _plan(command: BaseCommand, options: Options) -> None:
    if not options["session"]:
        _plan_many(command, options)
        return
    tenant = _tenant_of(options)
    plan = plan_recovery(tenant, options["session"])
    shell.say(command, options, _document(tenant, plan), _told(tenant, plan))
    shell.leave(shell.OK if plan.status in FINE else shell.ATTENTION)


def _plan_many(command: BaseCommand, options: Options) -> None:
    plans: list[tuple[Tenant, Plan]] = []

    def read(tenant: Tenant, after: uuid.UUID | None) -> uuid.UUID | None:
        page = plan_page(tenant, after=after, limit=options["limit"], settled=options["settled"])
        plans.extend((tenant, plan) for plan in page.plans)
        return page.after

    with shell.refusals(command, options):
        following = _walk(options, read)
    lines = [f"{tenant.slug}  {plan.session.session_id}  {plan.status}" for tenant, plan in plans]
    counted = Counter(plan.status for _, plan in plans)
    data = {"plans": [_document(tenant, plan) for tenant, plan in plans], "after": following}
    shell.say(command, options, data, [*lines, _counted(counted, "session"), *_goes_on(following)])
    shell.leave(shell.OK if set(counted) <= set(FINE) else shell.ATTENTION)


def _execute(command: BaseCommand, options: Options) -> None:
    tenant = _tenant_of(options)
    actor, reason = shell.person(options, tenant), shell.reason(options)
    with shell.refusals(command, options):
        executed = execute_recovery(tenant, actor, options["session"], digest=options["digest"], reason=reason)
    session = executed.session
    done = f"Executed at {_at(executed.at)}, as recorded" if executed.replay else "Executed"
    lines = [f"{done}: {_made(executed)}.", f"Session {session.session_id} is {session.state} now."]
    shell.say(command, options, _record(executed), lines)


def _sweep(command: BaseCommand, options: Options) -> None:
    reason = shell.reason(options)
    answers: list[tuple[Tenant, Answer]] = []
    refused: list[dict[str, str]] = []

    def carry_out(tenant: Tenant, after: uuid.UUID | None) -> uuid.UUID | None:
        page = {"after": after, "limit": options["limit"], "settled": options["settled"]}
        try:
            swept = sweep(tenant, shell.person(options, tenant), reason=reason, **page)
        except CayuError as refusal:
            refused.append({"tenant": tenant.slug, "code": refusal.code, "message": refusal.message})
            return None
        answers.extend((tenant, answer) for answer in swept.answers)
        return swept.after

    following = _walk(options, carry_out)
    lines = [f"{no['tenant']}: {no['message']}" for no in refused]
    lines += [_answer(tenant, answer) for tenant, answer in answers if answer.code != "left"]
    counted = Counter(answer.code for _, answer in answers)
    data = {"answers": [_answered(*one) for one in answers], "refused": refused, "after": following}
    shell.say(command, options, data, [*lines, _counted(counted, "session"), *_goes_on(following)])
    shell.leave(shell.ATTENTION if refused or set(counted) - {"done", "left"} else shell.OK)


def _walk(options: Options, step: Callable[[Tenant, uuid.UUID | None], uuid.UUID | None]) -> str | None:
    """Page by page over the tenants, by slug. Returns where to go on when it stopped before the end."""
    slug, after = options["after"] or ("", None)
    pages = 0
    for tenant in shell.tenants(options):
        if tenant.slug < slug:
            continue
        at = after if tenant.slug == slug else None
        while True:
            if options["pages"] and pages == options["pages"]:
                return f"{tenant.slug}:{at or BEGINNING}"
            at = step(tenant, at)
            pages += 1
            if at is None:
                break
    return None


def _tenant_of(options: Options) -> Tenant:
    """The one tenant in the scope that has this session."""
    named = options["session"]
    found = [tenant for tenant in shell.tenants(options) if find_session(tenant, named) is not None]
    if not found:
        raise CommandError(f"There is no session {named!r} there. `recovery plan` without an id lists the open ones.")
    if len(found) > 1:
        slugs = ", ".join(tenant.slug for tenant in found)
        raise CommandError(f"Several tenants have a session {named!r}: {slugs}. Give --tenant SLUG.")
    return found[0]


def _document(tenant: Tenant, plan: Plan) -> dict[str, Any]:
    return {**plan.facts(), "tenant": tenant.slug, "says": plan.says, "digest": plan.digest}


def _record(executed: Executed) -> dict[str, Any]:
    told = ("digest", "status", "made", "by", "by_name", "reason", "at", "seq", "replay")
    session = {"session_id": executed.session.session_id, "state": executed.session.state}
    return {**session, **{name: getattr(executed, name) for name in told}}


def _answered(tenant: Tenant, answer: Answer) -> dict[str, Any]:
    plan = {"tenant": tenant.slug, "session_id": answer.plan.session.session_id, "status": answer.plan.status}
    executed = _record(answer.executed) if answer.executed else None
    return {**plan, "code": answer.code, "message": answer.message, "executed": executed}


def _told(tenant: Tenant, plan: Plan) -> list[str]:
    session = plan.session
    lines = [f"{session.session_id} of {tenant.slug}: {plan.status}", plan.says]
    lines += ["In the way:", *map(_blocker, plan.blockers)] if plan.blockers else []
    if plan.repairs:
        execute = f"manage.py recovery execute {session.session_id} {plan.digest} --tenant {tenant.slug}"
        lines += ["Executing this plan:", *map(_repair, plan.repairs), f"{execute} --as USERNAME --reason WHY"]
    return lines


def _blocker(blocker: Blocker) -> str:
    about = f" {blocker.about}" if blocker.about else ""
    call = f" of {blocker.call.tool} (call {blocker.call.pk})" if blocker.call else ""
    known = "; ".join(
        f"{name} {_plain(value)}" for name, value in blocker.evidence.items() if value not in (None, False)
    )
    return f"  {blocker.kind}{about}{call} since {_at(blocker.since)}{': ' if known else ''}{known}"


def _repair(repair: Repair) -> str:
    call = f" {repair.call.tool} (call {repair.call.pk})" if repair.call else ""
    become = [f"call {repair.call_becomes}"] if repair.call_becomes else []
    become += [f"effect {repair.effect_becomes}"] if repair.effect_becomes else []
    return f"  {repair.kind}{call}{': ' if become else ''}{', '.join(become)}"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items()) or "none"
    return str(value)


def _answer(tenant: Tenant, answer: Answer) -> str:
    told = _made(answer.executed) if answer.executed else answer.message
    return f"{tenant.slug}  {answer.plan.session.session_id}  {answer.code}: {told}"


def _made(executed: Executed) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in executed.made.items())


def _counted(counted: Counter[str], noun: str) -> str:
    total = counted.total()
    each = ", ".join(f"{count} {name}" for name, count in sorted(counted.items()))
    return f"{total} {noun}{'' if total == 1 else 's'}{': ' if each else '.'}{each}"


def _goes_on(following: str | None) -> list[str]:
    return [f"There is more. Go on with --after {following}"] if following else []


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
