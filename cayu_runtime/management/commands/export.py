from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_runtime.management import shell
from cayu_runtime.selectors.tenant import find_tenant
from cayu_runtime.services.audit import export_records


class Command(BaseCommand):
    help = (
        "Print the records of a tenant as JSON, one line each: its audit entries, then the events of its sessions. "
        "Needs a person with the role auditor there; that they took them stands on the tenant's audit chain."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the tenant, as given to createtenant")
        shell.add_person(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = find_tenant(options["slug"])
        if tenant is None:
            raise CommandError(f"There is no tenant {options['slug']!r}. Give the slug that createtenant was given.")
        with shell.refusals(self, options):
            records = export_records(tenant, shell.person(options, tenant), reason=shell.reason(options))
        shell.tell(self, (json.dumps(line, separators=(",", ":")) for line in records))
