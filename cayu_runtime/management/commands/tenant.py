from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_runtime.management import shell
from cayu_runtime.models import Tenant
from cayu_runtime.selectors.tenant import find_tenant
from cayu_runtime.services.tenant import LIMITS, limit_tenant

WORDS = {
    "max_running_sessions": "sessions that have not ended",
    "max_pending_approvals": "requests of one agent that wait for people",
    "max_steps": "model steps of one session in a row",
}


class Command(BaseCommand):
    help = (
        "What a tenant may have at once: `tenant limits SLUG` shows it; with a limit, a person and a reason it is set. "
        "`none` lifts one. docs/limits.md says what happens when one is reached."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=("limits",))
        parser.add_argument("slug", help="the tenant, as given to createtenant")
        for option, name in zip(("--running", "--approvals", "--steps"), LIMITS, strict=True):
            parser.add_argument(option, dest=name, type=_number, metavar="N|none", help=f"most {WORDS[name]}")
        parser.add_argument("--as", dest="username", metavar="USERNAME", help="the person who sets it")
        parser.add_argument("--reason", default="", help="why; it stays on record")
        shell.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = find_tenant(options["slug"])
        if tenant is None:
            raise CommandError(f"There is no tenant {options['slug']!r}. Give the slug that createtenant was given.")
        given = {name: options[name] for name in LIMITS if options[name] is not None}
        if given:
            if not options["username"]:
                raise CommandError("Say who sets it: --as USERNAME, with --reason TEXT.")
            limits = {name: None if most == "none" else most for name, most in given.items()}
            with shell.refusals(self, options):
                who, why = shell.person(options, tenant), shell.reason(options)
                tenant = limit_tenant(who, tenant, limits, reason=why)
        shell.say(self, options, {name: getattr(tenant, name) for name in LIMITS}, _told(tenant))


def _number(text: str) -> int | str:
    if text == "none":
        return text
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ArgumentTypeError(f"{text!r} is no limit. Give a whole number from 1 on, or none.")
    return int(text)


def _told(tenant: Tenant) -> Iterator[str]:
    for name in LIMITS:
        most = getattr(tenant, name)
        yield f"{WORDS[name]}: {'no limit' if most is None else f'at most {most}'}"
