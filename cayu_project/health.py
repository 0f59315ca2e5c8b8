"""Two probes. Live: the process answers, nothing else is asked. Ready: what a request needs is there."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django_q.models import OrmQ

from cayu_runtime.selectors import worker

OK = "ok"
# A heartbeat is written each second, and the sweep looks as often.
BEAT_AGE = timedelta(seconds=15)
SWEEP_AGE = timedelta(seconds=60)


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


def _workers() -> str:
    return OK if worker.recent_workers(BEAT_AGE) else f"none was heard for {BEAT_AGE.seconds} seconds"


def _sweep() -> str:
    """The oldest row that the sweep, or an idle worker, should have moved. A queue before busy workers is no fault."""
    idle = any(one.busy_since is None for one in worker.recent_workers(BEAT_AGE))
    if worker.is_unswept(SWEEP_AGE) or (idle and worker.is_unheard(SWEEP_AGE)):
        return f"something is overdue by more than {SWEEP_AGE.seconds} seconds"
    return OK


PARTS: dict[str, Callable[[], str]] = {
    "database": _database,
    "migrations": _migrations,
    "queue": _queue,
    "workers": _workers,
    "sweep": _sweep,
}


def describe(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """The two probes in the API's description, for they are no routes of it: nobody signs in to ask them."""
    parts = {name: {"type": "string", "description": f"`{OK}`, or what is wrong"} for name in PARTS}
    said = {"status": {"type": "string"}}
    answers = {"200": _answer("Every part answers", {**said, "parts": {"type": "object", "properties": parts}})}
    answers["503"] = {**answers["200"], "description": "`parts` names what does not answer"}
    result["paths"]["/health/live"] = _probe("health_live", "Is this process alive?", {"200": _answer("It is", said)})
    result["paths"]["/health/ready"] = _probe("health_ready", "Is all there that a request needs?", answers)
    return result


def _probe(name: str, summary: str, answers: dict[str, Any]) -> dict[str, Any]:
    return {"get": {"operationId": name, "summary": summary, "tags": ["health"], "security": [], "responses": answers}}


def _answer(words: str, fields: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {"description": words, "content": {"application/json": {"schema": schema}}}
