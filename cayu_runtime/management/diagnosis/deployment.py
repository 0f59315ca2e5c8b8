"""What is wrong with the deployment as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.core import checks
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from ...core import doorbell
from ...selectors.pause import all_pauses
from ...selectors.quarantine import open_quarantines, still_unknown
from ...selectors.tenant import all_tenants
from ...selectors.worker import overdue, recent_workers
from ..audit.schema import trigger_problems
from . import BROKEN, NOTE, PEOPLE, SHOWN, Finding

# A heartbeat is written each second, and the sweep looks as often.
BEAT_AGE = timedelta(seconds=15)
OVERDUE = timedelta(seconds=60)
BELLS = 200


def missing_migrations() -> Iterator[Finding]:
    """Nothing else can be asked of a database that lacks them."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        names = tuple(f"{migration.app_label}.{migration.name}" for migration, _ in plan[:SHOWN])
        yield Finding(
            BROKEN, "migrations", f"{len(plan)} migrations are not applied.", "manage.py migrate", items=names
        )


def findings(now: datetime) -> Iterator[Finding]:
    yield from _configuration()
    yield from _triggers()
    yield from _workers(now)
    yield from _pauses(now)
    yield from _quarantines(now)


def _configuration() -> Iterator[Finding]:
    """The system checks: weak durability, an unsafe queue, a policy that can't be asked, a tool without reconciler."""
    for message in checks.run_checks(databases=["default"]):
        if message.is_silenced() or not str(message.id).startswith("cayu."):
            continue
        level = BROKEN if message.is_serious() else NOTE
        yield Finding(level, str(message.id), str(message.msg), str(message.hint or "manage.py check"))


def _triggers() -> Iterator[Finding]:
    problems = tuple(trigger_problems())
    if problems:
        yield Finding(
            BROKEN,
            "triggers",
            "Records that must never change can be changed: their triggers are not as they were made.",
            "Find out who lifted them, then run verify_audit; docs/doctor.md says how to put them back.",
            items=problems[:SHOWN],
        )


def _workers(now: datetime) -> Iterator[Finding]:
    workers = recent_workers(BEAT_AGE)
    late = [(what, since) for what, since in overdue() if now - since > OVERDUE]
    if not workers:
        yield Finding(
            BROKEN,
            "no_worker",
            f"No worker was heard for {BEAT_AGE.seconds} seconds, so nothing runs, expires or is recovered.",
            "manage.py worker (and keep it running, under a service manager)",
        )
    idle = any(worker.busy_since is None for worker in workers)
    for what, since in late:
        by_worker = what == "a session that could run"
        if by_worker and workers and not idle:
            busy = f"{len(workers)} workers are all busy, and {what} has waited since {at(since)}."
            yield Finding(NOTE, "busy", busy, "Raise CAYU_WORKERS, or start workers on another machine.")
        else:
            text = f"The oldest row that should have moved: {what}, due since {at(since)}."
            yield Finding(BROKEN, "unswept", text, "Read the log of manage.py worker, and start it anew.")
    if idle and len(doorbell.unanswered(BELLS)) == BELLS:
        yield Finding(
            BROKEN,
            "queue",
            f"{BELLS} wake-ups or more lie in the queue, although a worker is idle.",
            "Start manage.py worker anew; the wake-ups stay, and lost ones are made up for.",
        )
    if settings.CAYU_AUTHORITY == "":
        text = "CAYU_AUTHORITY is empty: nobody may decide, answer or reconcile anything."
        yield Finding(PEOPLE, "no_authority", text, "Set CAYU_AUTHORITY, or unset it for the default.")


def _pauses(now: datetime) -> Iterator[Finding]:
    for pause in all_pauses():
        if pause.quarantine_id is not None:
            continue
        named = [f"--tenant {pause.tenant.slug}" if pause.tenant else ""]
        named += [f"--tool {pause.tool}" if pause.tool else "", f"--agent {pause.agent}" if pause.agent else ""]
        scope = " ".join(filter(None, named))
        whose = pause.tenant.slug if pause.tenant else ""
        text = f"Dispatch is paused since {at(pause.created_at)} by {pause.created_by}: {pause.reason}"
        yield Finding(PEOPLE, "paused", text, f"manage.py dispatch resume {scope}".strip(), whose)


def _quarantines(now: datetime) -> Iterator[Finding]:
    for quarantine in open_quarantines():
        tenants = [quarantine.tenant] if quarantine.tenant else all_tenants()
        unknown = [effect for tenant in tenants for effect in still_unknown(tenant, limit=SHOWN)][:SHOWN]
        scope = f"--tenant {quarantine.tenant.slug}" if quarantine.tenant else "--all-tenants"
        left = "sessions are still to be gone through" if quarantine.taken_at is None else "nothing in it is unknown"
        left = "some of its effects are unknown" if unknown else left
        done = quarantine.taken_at is not None and not unknown
        yield Finding(
            PEOPLE,
            "quarantine",
            f"Dispatch is closed since {at(quarantine.started_at)} after a restored backup; {left}.",
            f"manage.py recovery {'release' if done else 'quarantine'} {scope} --as NAME --reason TEXT "
            "(docs/restored-backup.md)",
            quarantine.tenant.slug if quarantine.tenant else "",
            tuple(f"effect {effect.pk}" for effect in unknown),
        )


def at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
