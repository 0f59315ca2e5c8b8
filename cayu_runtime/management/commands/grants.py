from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_runtime.core import clock
from cayu_runtime.management import shell
from cayu_runtime.models import Grant, Tenant
from cayu_runtime.selectors.grant import find_in_any_tenant, last_quarantine, newest_grants, state_of
from cayu_runtime.services.grant import DEFAULT_USES, MAX_TIME, MAX_USES, make_grant, revoke_grant

LIMIT = 100
HOURS = int(MAX_TIME.total_seconds() // 3600)


class Command(BaseCommand):
    help = "Standing grants: what passes without a further approval. List them, make one, take one back."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="list|make|revoke")
        shown = actions.add_parser("list", help="live and past ones, newest first")
        shell.add_scope(shown)
        shown.add_argument("--limit", type=int, default=LIMIT, help="at most so many of each (default: %(default)s)")
        make = actions.add_parser("make", help="let calls of one tool in a range pass for a time")
        make.add_argument("tool")
        make.add_argument("--tenant", metavar="SLUG", required=True, help="the tenant whose calls may pass")
        make.add_argument("--agent", default="", help="of this agent alone (default: of every agent)")
        make.add_argument("--rules", required=True, metavar="JSON", help="the range, or @FILE that holds it")
        make.add_argument("--hours", type=int, default=24, help=f"1 to {HOURS} (default: %(default)s)")
        make.add_argument("--uses", type=int, default=DEFAULT_USES, help=f"1 to {MAX_USES} (default: %(default)s)")
        revoke = actions.add_parser("revoke", help="take a grant back; nothing begins under it any more")
        revoke.add_argument("grant", help="its id, from `grants list`")
        for writes in (make, revoke):
            shell.add_person(writes)
        for each in (shown, make, revoke):
            shell.add_json(each)

    def handle(self, *args: Any, **options: Any) -> None:
        with shell.refusals(self, options):
            getattr(self, f"_{options['action']}")(options)

    def _list(self, options: dict[str, Any]) -> None:
        limit, chosen = shell.limit(options), shell.tenants(options)
        found = [_shown(grant, tenant) for tenant in chosen for grant in newest_grants(tenant, limit=limit)]
        shell.say(self, options, {"grants": found}, _listed(found))

    def _make(self, options: dict[str, Any]) -> None:
        (tenant,) = shell.tenants({**options, "all_tenants": False})
        grant = make_grant(
            tenant,
            shell.person(options, tenant),
            tool=options["tool"],
            agent=options["agent"],
            rules=_rules(options["rules"]),
            reason=shell.reason(options),
            lasts=timedelta(hours=max(0, min(options["hours"], HOURS + 1))),
            max_uses=options["uses"],
        )
        shell.say(self, options, {"grant": _shown(grant, tenant)}, _listed([_shown(grant, tenant)]))

    def _revoke(self, options: dict[str, Any]) -> None:
        grant = _find(options)
        tenant, actor = grant.tenant, shell.person(options, grant.tenant)
        taken = revoke_grant(tenant, actor, grant.pk, reason=shell.reason(options))
        said = f"The grant for {taken.tool} is taken back. What has begun goes on; nothing else begins under it."
        shell.say(self, options, {"grant": _shown(taken, tenant)}, [said])


def _find(options: Mapping[str, Any]) -> Grant:
    try:
        grant = find_in_any_tenant(UUID(options["grant"]))
    except ValueError:
        grant = None
    if grant is None:
        raise CommandError(
            f"There is no grant {options['grant']!r:.80}. `manage.py grants list --all-tenants` prints their ids."
        )
    return grant


def _rules(text: str) -> str:
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        raise CommandError(f"The rules can't be read from {text[1:]}: {problem}.") from None


def _shown(grant: Grant, tenant: Tenant) -> dict[str, Any]:
    names = ("id", "tool", "tool_version", "agent", "rules", "reason", "made_by", "made_by_name", "made_at")
    more = ("expires_at", "max_uses", "uses", "last_used_at", "revoked_at", "revoked_by", "revoke_reason")
    state = state_of(grant, clock.now(), last_quarantine(tenant))
    return {"tenant": tenant.slug, "state": state, **{name: getattr(grant, name) for name in (*names, *more)}}


def _listed(found: list[dict[str, Any]]) -> Iterator[str]:
    if not found:
        yield "No grant was made."
    for one in found:
        agent = one["agent"] or "every agent"
        yield (
            f"{one['id']}  {one['tenant']}  {one['state']}  {one['tool']} {one['tool_version']}, {agent}  "
            f"{one['uses']} of {one['max_uses']} uses, until {one['expires_at']:%Y-%m-%d %H:%M:%S} UTC, "
            f"by {one['made_by_name']}: {one['reason']}"
        )
