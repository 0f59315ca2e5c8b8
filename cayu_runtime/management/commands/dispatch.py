from __future__ import annotations

import getpass
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_runtime import registry
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import CayuError
from cayu_runtime.management import shell
from cayu_runtime.models import DispatchPause, Tenant
from cayu_runtime.selectors.pause import all_pauses
from cayu_runtime.selectors.tenant import find_tenant
from cayu_runtime.services.pause import pause_dispatch, resume_dispatch


class Command(BaseCommand):
    help = "The kill switch: hold calls back before they begin, for all or for one tenant, tool or agent."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=("pause", "resume", "status"))
        parser.add_argument("--tenant", default="", help="slug of one tenant (default: the whole deployment)")
        parser.add_argument("--tool", default="", help="name of one tool (default: every tool)")
        parser.add_argument("--agent", default="", help="name of one agent (default: every agent)")
        parser.add_argument("--reason", default="", help="why, for those who wait (needed to pause)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "status":
            shell.tell(self, _status())
            return
        tenant = self._tenant(options["tenant"])
        named = {"tenant": tenant, "tool": options["tool"], "agent": options["agent"]}
        person = getpass.getuser()
        actor = Actor(f"shell:{person}", person, tenant.id if tenant else None, "shell")
        try:
            if options["action"] == "pause":
                pause = pause_dispatch(actor, reason=options["reason"], **named)
                shell.tell(self, [f"Paused: {_named(pause)}. Calls that have begun go on; no further one begins."])
                for said in _unknown(pause):
                    self.stderr.write(said)
            else:
                woken = resume_dispatch(actor, **named)
                shell.tell(self, [f"Resumed. {woken} waiting sessions were woken."])
        except CayuError as error:
            raise CommandError(error.message) from None

    def _tenant(self, slug: str) -> Tenant | None:
        if not slug:
            return None
        tenant = find_tenant(slug)
        if tenant is None:
            raise CommandError(f"There is no tenant {slug!r}. Give the slug that `createtenant` was given.")
        return tenant


def _status() -> Iterator[str]:
    pauses = all_pauses()
    for pause in pauses:
        since = f"{pause.created_at:%Y-%m-%d %H:%M:%S} UTC"
        yield f"{_named(pause)}: paused since {since} by {pause.created_by}: {pause.reason}"
    if not pauses:
        yield "Nothing is paused."


def _unknown(pause: DispatchPause) -> Iterator[str]:
    """What a slip of the pen named. It is no refusal: a newer build that is on its way may know it."""
    agents = registry.agents()
    tools = {tool.spec.name for agent in agents.values() for tool in agent.tools}
    for what, name, known in (("tool", pause.tool, tools), ("agent", pause.agent, set(agents))):
        if name and name not in known:
            names = ", ".join(sorted(known)) or "none"
            yield f"No {what} here is called {name!r}, so this may hold nothing back. Known: {names}."


def _named(pause: DispatchPause) -> str:
    tenant = f"tenant {pause.tenant.slug}" if pause.tenant else "all tenants"
    return ", ".join(
        [
            tenant,
            f"tool {pause.tool}" if pause.tool else "all tools",
            f"agent {pause.agent}" if pause.agent else "all agents",
        ]
    )
