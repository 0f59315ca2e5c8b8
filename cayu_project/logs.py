"""Structured logs: one JSON object per line on stderr.

The ids that belong to a line (`request_id`, `tenant`, `session`, `call`) are bound once by
`structlog.contextvars.bind_contextvars` and then stand on every line written below, also on those of libraries.
Argument values, results and credentials are never logged; a field that would carry one is left out by name.
"""

from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LEFT_OUT = "[left out]"
NEVER_LOGGED = frozenset(
    {
        "args", "arguments", "authorization", "body", "cookie", "idempotency_key", "kwargs", "password", "payload",
        "proposed", "result", "secret", "token", "transcript",
    }
)  # fmt: skip


def leave_out_contents(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Replace the value of every field that may hold arguments, results or credentials."""
    for name in NEVER_LOGGED.intersection(event):
        event[name] = LEFT_OUT
    request = event.get("request")
    if isinstance(request, str) and "/accounts/" in request:  # the way back from a provider carries a code
        event["request"] = request.partition("?")[0]
    return event


SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
    structlog.processors.format_exc_info,
    leave_out_contents,
]


def configure_structlog() -> None:
    """Send structlog's lines through the standard library, so that one handler writes everything."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def logging_config() -> dict[str, Any]:
    """The LOGGING setting. uvicorn's own loggers are taken over, its access log is left to the request middleware."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": SHARED,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.JSONRenderer(),
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {
            "django-q": {"level": "WARNING"},
            "django.server": {"handlers": [], "level": "INFO", "propagate": True},
            "httpx": {"level": "WARNING"},
            "uvicorn": {"handlers": [], "level": "INFO", "propagate": True},
            "uvicorn.access": {"handlers": [], "level": "WARNING", "propagate": True},
        },
    }
