from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import Error

from cayu_runtime.core import clock
from cayu_runtime.management import shell
from cayu_runtime.management.diagnosis import BROKEN, PEOPLE, Finding, deployment, tenants

CODES = {BROKEN: 2, PEOPLE: 1}
MARKS = {BROKEN: "BROKEN", PEOPLE: "PEOPLE", "note": "note  "}


class Command(BaseCommand):
    help = (
        "What is stuck, why, and what to do about it. It only reads. Exit code: 0 nothing is, 1 a person must act, "
        "2 the machine does not do its work. docs/doctor.md says what each finding means."
    )
    # It reports what the checks find, beside everything else.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        shell.add_scope(parser)
        shell.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = list(deployment.missing_migrations()) or list(_findings(options))
        except Error as error:
            said = str(error).strip().partition("\n")[0]
            do = "Start the database, or set DATABASE_URL."
            found = [Finding(BROKEN, "database", f"The database does not answer ({said}).", do)]
        found.sort(key=lambda finding: -CODES.get(finding.level, 0))
        code = max((CODES.get(finding.level, 0) for finding in found), default=0)
        shell.say(self, options, {"exit_code": code, "findings": [one.data() for one in found]}, _told(found, code))
        shell.leave(code)


def _findings(options: Any) -> Iterator[Finding]:
    now = clock.now()
    chosen = shell.tenants(options)
    yield from deployment.findings(now)
    for tenant in chosen:
        yield from tenants.findings(tenant, now)


def _told(found: list[Finding], code: int) -> Iterator[str]:
    for one in found:
        where = f"[{one.tenant}] " if one.tenant else ""
        yield f"{MARKS[one.level]}  {where}{one.what}"
        yield from (f"          {item}" for item in one.items)
        yield f"        → {one.do}"
    if code == 0:
        yield "Nothing is stuck."
