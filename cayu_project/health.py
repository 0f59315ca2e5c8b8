"""Two probes. Live: the process answers, nothing else is asked. Ready: what a request needs is there."""

from collections.abc import Callable
from functools import cache

from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django_q.models import OrmQ

OK = "ok"


@never_cache
@require_safe
def live(request: HttpRequest) -> JsonResponse:
    """200 as long as the process answers; asks no database, so that its outage does not restart the web."""
    return JsonResponse({"status": "alive"})


@never_cache
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """200 when every part answers, else 503; the body names each part. No detail of an error leaves the process."""
    parts = {name: _ask(part) for name, part in PARTS.items()}
    is_ready = all(answer == OK for answer in parts.values())
    return JsonResponse(
        {"status": "ready" if is_ready else "not ready", "parts": parts}, status=200 if is_ready else 503
    )


def _ask(part: Callable[[], str]) -> str:
    try:
        return part()
    except Error:
        return "unreachable"


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return OK


def _migrations() -> str:
    missing = len(_newest_migrations() - set(MigrationRecorder(connection).applied_migrations()))
    return f"{missing} not applied" if missing else OK


@cache
def _newest_migrations() -> frozenset[tuple[str, str]]:
    """The last migration of each app in this build: they stand for all before them."""
    return frozenset(MigrationLoader(None).graph.leaf_nodes())


def _queue() -> str:
    OrmQ.objects.exists()
    return OK


PARTS: dict[str, Callable[[], str]] = {"database": _database, "migrations": _migrations, "queue": _queue}
