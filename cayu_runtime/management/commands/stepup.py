from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_runtime.management import shell
from cayu_runtime.selectors.tenant import find_tenant
from cayu_runtime.services.tenant import set_step_up


class Command(BaseCommand):
    help = "Say whether deciding about an EXTERNAL effect of a tenant takes a sign-in of the last five minutes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="the tenant's slug, as given to createtenant")
        parser.add_argument("wanted", choices=("on", "off"))

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = find_tenant(options["tenant"])
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']!r}.")
        changed = set_step_up(tenant, options["wanted"] == "on")
        now = "is now" if changed else "was already"
        shell.tell(self, [f"A fresh sign-in before EXTERNAL decisions in {tenant.slug} {now} {options['wanted']}."])
