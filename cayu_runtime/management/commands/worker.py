from __future__ import annotations

import os
import signal
import threading
from typing import Any

import structlog
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connections

from cayu_runtime.worker.sweep import Sweep

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 1.0


class Command(BaseCommand):
    help = "Run the agents: one queue cluster, and a sweep each second. Ctrl-C or SIGTERM ends it."

    def handle(self, *args: Any, **options: Any) -> None:
        os.environ.setdefault("CAYU_PROCESS", "worker")
        stop = threading.Event()
        from django_q.cluster import Cluster

        cluster = Cluster()
        cluster.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        log.info("worker.started", pid=os.getpid())
        sweep = Sweep()
        while not stop.wait(SWEEP_SECONDS):
            try:
                sweep.once()
            except DatabaseError as error:
                log.warning("sweep.failed", error=type(error).__name__)
                connections.close_all()
        connections.close_all()
        cluster.stop()
        log.info("worker.stopped", pid=os.getpid())
