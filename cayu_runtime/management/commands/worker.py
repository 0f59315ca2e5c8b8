from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from cayu_runtime import registry
from cayu_runtime.worker.supervisor import Supervisor


class Command(BaseCommand):
    help = (
        "Run the agents: CAYU_WORKERS clusters of one worker each, kept alive, and a sweep each second. SIGTERM or "
        "Ctrl-C lets running tools end within CAYU_DRAIN_SECONDS; a second one ends all at once."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self._require_database()
        self._require_agents()
        sys.exit(Supervisor(settings.CAYU_WORKERS, settings.CAYU_DRAIN_SECONDS).run())

    def _require_database(self) -> None:
        try:
            self.check(tags=[checks.Tags.database], databases=["default"])
            executor = MigrationExecutor(connection)
            missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
        except Error as error:
            said = str(error).strip().partition("\n")[0]
            raise CommandError(f"The database does not answer ({said}). Start it, or set DATABASE_URL.") from None
        finally:
            connection.close()
        if missing:
            raise CommandError(f"{missing} migrations are not applied. Run `manage.py migrate` first.")

    def _require_agents(self) -> None:
        """Each cluster would meet the same, again and again."""
        try:
            registry.agents()
        except Exception as error:
            raise CommandError(f"The agents cannot be loaded: {type(error).__name__}: {error}") from error
