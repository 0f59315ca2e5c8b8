from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_runtime.errors import CayuError
from cayu_runtime.management import shell
from cayu_runtime.services.tenant import create_tenant


class Command(BaseCommand):
    help = "Create a tenant: the owner of sessions, approvals and people's roles."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="short name for commands and logs: letters, digits, '-' and '_'")
        parser.add_argument("--name", default="", help="name for people (default: the slug)")
        parser.add_argument("--step-up", action="store_true", help="EXTERNAL effects are decided after a fresh sign-in")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            tenant = create_tenant(options["slug"], options["name"] or options["slug"], step_up=options["step_up"])
        except CayuError as error:
            raise CommandError(error.message) from None
        shell.tell(self, [f"Tenant {tenant.slug} ({tenant.name}) is ready, id {tenant.id}."])
