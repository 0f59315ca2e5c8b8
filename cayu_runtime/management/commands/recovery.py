from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from cayu_runtime.management import quarantine, recovery

# Each offers `add_to(subparsers)` and sets `handler(command, options)`.
MODULES = (recovery, quarantine)


class Command(BaseCommand):
    help = (
        "Sessions that are stuck: `plan` shows what is in the way and what can be repaired, `execute` carries out "
        "exactly that, `sweep` does it for many. None of these runs a model, a tool or an adapter. Exit code 3: "
        "somebody must look. After a restored backup: `quarantine`, then `release`."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        subparsers = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for module in MODULES:
            module.add_to(subparsers)

    def handle(self, *args: Any, **options: Any) -> None:
        options["handler"](self, options)
