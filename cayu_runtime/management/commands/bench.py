from __future__ import annotations

import json
import os
from argparse import SUPPRESS
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_runtime.core import engine
from cayu_runtime.management import shell

DATABASES = ("sqlite", "postgres")


class Command(BaseCommand):
    help = (
        "Measure what a lifecycle costs on this machine, on databases made for it and thrown away. "
        "Needs the extra `dev`. No other work should run meanwhile."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
        parser.add_argument("--quick", action="store_true", help="shorter and rougher, two minutes instead of eight")
        parser.add_argument("--database", choices=DATABASES, action="append", help="measure one alone (default: both)")
        parser.add_argument(
            "--database-url",
            default=os.environ.get("TEST_DATABASE_URL", ""),
            help="a PostgreSQL server to make a database on (default: TEST_DATABASE_URL, else one is started here)",
        )
        parser.add_argument("--only", action="append", default=[], help="one step, by name; may be repeated")
        # How the command calls itself in the processes that measure.
        parser.add_argument("--inside", default="", help=SUPPRESS)
        parser.add_argument("--given", default="{}", type=json.loads, help=SUPPRESS)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            import psutil  # noqa: F401  by which the processes are watched
        except ImportError:
            raise CommandError("The benchmark needs the extra `dev`: pip install -e '.[dev]'") from None
        if options["inside"]:
            from cayu_runtime.benchmark.measures import serve

            serve(options["inside"], options["given"], engine.run_session)
        else:
            self._report(options)

    def _report(self, options: dict[str, Any]) -> None:
        from cayu_runtime.benchmark import report, run
        from cayu_runtime.benchmark.database import NoDatabase
        from cayu_runtime.benchmark.processes import BenchFailed, Bystanders, Ground

        unknown = sorted(set(options["only"]) - set(run.STEPS))
        if unknown:
            raise CommandError(f"There is no step {unknown[0]!r}. The steps are: {', '.join(run.STEPS)}.")
        extent = run.QUICK if options["quick"] else run.Extent()
        machine, bystanders = report.machine(), Bystanders()
        versions: dict[str, str] = {}
        results: dict[str, dict[str, float]] = {}
        try:
            for vendor in options["database"] or DATABASES:
                with _database(vendor, options["database_url"]) as url:
                    ground = Ground(url)
                    results[vendor] = {}
                    for step, figures in run.measure(ground, extent, options["only"]):
                        self.stderr.write(f"{vendor}: {step}", self.style.NOTICE)
                        results[vendor] |= figures
                    versions[vendor] = ground.version
        except (NoDatabase, BenchFailed) as problem:
            raise CommandError(str(problem)) from None
        others = bystanders.share()
        if options["json"]:
            shell.tell(self, [report.document(machine, versions, results, others, quick=options["quick"])])
        else:
            heading = report.heading(machine, list(versions.values()), others, quick=options["quick"])
            shell.tell(self, [heading, report.table(results)])


@contextmanager
def _database(vendor: str, server: str) -> Iterator[str]:
    from cayu_runtime.benchmark.database import postgres_database, postgres_server, sqlite_file

    if vendor == "sqlite":
        with sqlite_file() as url:
            yield url
    else:
        with postgres_server(server) as started, postgres_database(started) as url:
            yield url
