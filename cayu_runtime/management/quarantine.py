"""`recovery quarantine` and `recovery release`: after a backup was restored (docs/restored-backup.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from ..errors import NotFound
from ..models import Quarantine, Tenant
from ..selectors.quarantine import last_quarantine, open_quarantine
from ..selectors.worker import lived_through
from ..services import quarantine as service
from . import shell

QUARANTINE = (
    "After a restored backup: close dispatch, make every open effect unknown, stop the sessions, and look each effect "
    "up under its stored key. Repeat it: it goes on where it was, and asks again about what is still unknown."
)
RELEASE = (
    "Open dispatch again, once nothing quarantined is unknown. What can't be settled is named with --leave, one by "
    "one; it stays unknown and is not dispatched. Sessions stay stopped, unless --resume-sessions."
)


def add_to(subparsers: Any) -> None:
    quarantine = subparsers.add_parser("quarantine", help=QUARANTINE, description=QUARANTINE)
    shell.add_scope(quarantine)
    shell.add_person(quarantine)
    shell.add_json(quarantine)
    quarantine.add_argument("--no-lookup", action="store_true", help="close and stop only; look nothing up yet")
    quarantine.add_argument(
        "--again", action="store_true", help="another backup was restored since this quarantine began: begin anew"
    )
    quarantine.set_defaults(handler=handle_quarantine)
    release = subparsers.add_parser("release", help=RELEASE, description=RELEASE)
    shell.add_scope(release)
    shell.add_person(release)
    shell.add_json(release)
    release.add_argument(
        "--leave", metavar="EFFECT", action="append", default=[], help="an effect that stays unknown; repeatable"
    )
    release.add_argument(
        "--resume-sessions", action="store_true", help="let the sessions go on that the quarantine stopped"
    )
    release.set_defaults(handler=handle_release)


def handle_quarantine(command: BaseCommand, options: Mapping[str, Any]) -> None:
    tenants, reason, scope = shell.tenants(options), shell.reason(options), _scope(options)
    data: dict[str, Any] = {}
    with shell.refusals(command, options):
        actor = shell.person(options, scope)
        made = service.start_quarantine(actor, reason=reason, tenant=scope, again=options["again"])
        taken: Counter[str] = Counter()
        whole = False
        while not whole:
            batch = service.take_sessions(actor, made)
            taken.update(seen=batch.seen, stopped=batch.stopped, effects=batch.effects)
            whole = batch.whole
        looked = service.Looked()
        for tenant in tenants if not options["no_lookup"] else ():
            _look_up_all(tenant, shell.person(options, tenant), reason, looked)
        data = {
            "quarantine": made.pk,
            "since": made.started_at,
            "newest_record_at": made.newest_record_at,
            "sessions": taken["seen"],
            "sessions_stopped": taken["stopped"],
            "effects_taken": taken["effects"],
            "looked_up": dict(looked.states),
            "not_looked_up": [{"effect": effect.pk, "why": why} for effect, why in looked.refused],
            "ask_again_at": looked.again_at,
            "workers_from_before": lived_through(made.started_at),
            "still_unknown": [effect.pk for effect in service.left_unknown(tenants)],
        }
    shell.say(command, options, data, _told(data, options))
    shell.leave(shell.ATTENTION if data["still_unknown"] else shell.OK)


def _look_up_all(tenant: Tenant, actor: Any, reason: str, looked: service.Looked) -> None:
    cursor: UUID | None = None
    while True:
        batch = service.look_up_quarantined(tenant, actor, reason=reason, after=cursor)
        looked.states.update(batch.states)
        looked.refused.extend(batch.refused)
        looked.again_at = max(filter(None, (looked.again_at, batch.again_at)), default=None)
        cursor = batch.cursor
        if cursor is None:
            return


def _told(data: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    yield f"Dispatch is closed since {_at(data['since'])}; `dispatch resume` does not open it."
    if data["newest_record_at"]:
        yield f"The newest record before that is of {_at(data['newest_record_at'])}."
        yield "What was proposed after it is lost, and no command finds it: compare the downstream's books since then."
    yield (
        f"{data['sessions']} sessions gone through now: {data['sessions_stopped']} stopped, "
        f"{data['effects_taken']} open effects made unknown."
    )
    if not options["no_lookup"]:
        found = ", ".join(f"{count} {state}" for state, count in sorted(data["looked_up"].items())) or "none"
        yield f"Looked up: {found}."
    for one in data["not_looked_up"][: service.SHOWN]:
        yield f"  not looked up: {one['effect']}: {one['why']}"
    if data["workers_from_before"]:
        yield "Workers from before the quarantine still run, and may still send what they had begun."
        yield "Start them anew, and run this again: until then an absence downstream proves nothing."
    if data["ask_again_at"]:
        yield f"What was absent downstream counts as absent after {_at(data['ask_again_at'])}: run this again then."
    if data["still_unknown"]:
        yield f"Still unknown: {_names(data['still_unknown'])}."
        yield "Settle them (this command again, or the page To reconcile), or leave them by name: recovery release."
    else:
        yield "Nothing quarantined is unknown. Next: recovery release."


def handle_release(command: BaseCommand, options: Mapping[str, Any]) -> None:
    tenants, reason, scope = shell.tenants(options), shell.reason(options), _scope(options)
    leave = frozenset(_uuid(name) for name in options["leave"])
    data: dict[str, Any] = {}
    with shell.refusals(command, options):
        actor = shell.person(options, scope)
        standing = _standing(scope, or_released=options["resume_sessions"] and not leave)
        woken = 0
        if standing.released_at is None:
            woken = service.release_quarantine(actor, standing, tenants, reason=reason, leave=leave)
        data = {"quarantine": standing.pk, "released_at": standing.released_at, "woken": woken, "left": sorted(leave)}
        if options["resume_sessions"]:
            data |= _resume_all(actor, standing, reason)
    shell.say(command, options, data, _released(data))
    shell.leave(shell.ATTENTION if data["left"] or data.get("not_resumed") else shell.OK)


def _standing(scope: Tenant | None, *, or_released: bool) -> Quarantine:
    """The open quarantine; where only its sessions are still to be resumed, the last one that was released."""
    standing = open_quarantine(scope) or (last_quarantine(scope) if or_released else None)
    if standing is not None:
        return standing
    if scope is not None and open_quarantine(None) is not None:
        raise NotFound("The quarantine holds every tenant. Release it with --all-tenants.")
    raise NotFound("There is no such quarantine. `dispatch status` lists what stands.")


def _resume_all(actor: Any, standing: Quarantine, reason: str) -> dict[str, Any]:
    resumed, refused, cursor = 0, [], None
    while True:
        count, not_resumed, cursor = service.resume_stopped(actor, standing, reason=reason, after=cursor)
        resumed += count
        refused += [{"session": session, "why": why} for session, why in not_resumed]
        if cursor is None:
            return {"resumed": resumed, "not_resumed": refused}


def _released(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"Dispatch is open again. {data['woken']} sessions that waited for it were woken."
    if data["left"]:
        yield f"Left unknown, and not dispatched: {_names(data['left'])}. They stand under To reconcile."
    if "resumed" not in data:
        yield "Sessions that the quarantine stopped stay stopped: see what each did downstream since the backup, then"
        yield "resume it on its page, or all of them with `recovery release … --resume-sessions`."
        return
    yield f"{data['resumed']} sessions go on."
    for one in data["not_resumed"][: service.SHOWN]:
        yield f"  not resumed: {one['session']}: {one['why']}"


def _scope(options: Mapping[str, Any]) -> Tenant | None:
    return None if options["all_tenants"] else shell.tenants(options)[0]


def _uuid(name: str) -> UUID:
    try:
        return UUID(name)
    except ValueError:
        raise CommandError(
            f"--leave {name}: that is no id of an effect. `recovery release` lists those left."
        ) from None


def _names(ids: list[UUID]) -> str:
    return ", ".join(map(str, ids[: service.SHOWN])) + (" and more" if len(ids) > service.SHOWN else "")


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
