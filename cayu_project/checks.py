"""System checks that refuse an unsafe configuration. Each says what is wrong and, as its hint, what to do.

cayu.E001  no SECRET_KEY                          cayu.E010  the database may lose a commit
cayu.E002  SQLite with DEBUG off                  cayu.E020  q2: another broker than the database
cayu.E003  a database that is not supported       cayu.E021  q2: a setting that could end or redeliver our work
cayu.E004  SQLite without serialised writes       cayu.W001  plain-http cookies for a public host
cayu.E005  a number out of its range              cayu.W002  the durability checks are off
cayu.E006  CAYU_AUTHORITY cannot be loaded
cayu.E007  CAYU_PROVIDERS cannot be loaded
cayu.E008  CAYU_SECRETS cannot be loaded              E009, W003, W004: sign-in, in cayu_review/checks.py
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, InterfaceError, connections
from django.utils.module_loading import import_string

from cayu_project.databases import POSTGRESQL, SQLITE

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]", "testserver"})
DAY = 24 * 3600

# What each number must lie between.
RANGES = {
    "CAYU_WORKERS": (1, 64),
    "CAYU_LEASE_SECONDS": (1, 3600),
    "CAYU_DRAIN_SECONDS": (0, 3600),
    "CAYU_MODEL_TIMEOUT": (1, 3600),
    "CAYU_API_READS": (0, 1_000_000),
    "CAYU_API_WRITES": (0, 1_000_000),
}

# q2 settings with the one value each under which q2 neither ends our work nor delivers it a second time.
FIXED_QUEUE_SETTINGS: dict[str, tuple[Any, str]] = {
    "workers": (1, "one worker to a cluster: a killed idle worker wedges the others of its cluster"),
    "ack_failures": (True, "otherwise a failed wake-up is delivered again for ever"),
    "max_attempts": (1, "otherwise a wake-up that failed is delivered again"),
    "queue_limit": (1, "a wake-up that waits in memory counts as delivered"),
    "bulk": (1, "a wake-up that waits in memory counts as delivered"),
    "recycle": (0, "a worker that ends itself takes with it a tool that was given up and may still answer"),
    "max_rss": (None, "a worker that ends itself takes with it a tool that was given up and may still answer"),
    "sync": (False, "otherwise the web process runs the agents itself, inside the request"),
    "testing": (False, "q2 then leaves its own loop after one turn"),
}
# What q2 takes where one of them is absent, if that is as harmless as the fixed value.
HARMLESS_DEFAULTS = {"max_rss": None, "sync": False, "testing": False}
ABSENT = object()
OTHER_BROKERS = ("broker_class", "redis", "django_redis", "iron_mq", "sqs", "mongo")


def check_secret_key(**kwargs: Any) -> list[checks.CheckMessage]:
    if not settings.SECRET_KEY_IS_MISSING:
        return []
    return [
        checks.Error(
            "SECRET_KEY is not set: each process made its own, so sign-ins and wake-ups do not pass between them.",
            hint="Set SECRET_KEY in the environment to 50 or more random characters, the same for web and workers.",
            id="cayu.E001",
        )
    ]


def check_database_kind(**kwargs: Any) -> Iterator[checks.CheckMessage]:
    for alias, database in settings.DATABASES.items():
        engine = database.get("ENGINE")
        if engine not in (SQLITE, POSTGRESQL):
            yield checks.Error(
                f"Database '{alias}' is neither PostgreSQL nor SQLite ({engine or 'DATABASE_URL was not understood'}).",
                hint="Set DATABASE_URL to postgres://user:password@host/name or sqlite:////path/to/file.",
                id="cayu.E003",
            )
        elif engine == SQLITE:
            yield from _check_sqlite(alias, database)


def _check_sqlite(alias: str, database: dict[str, Any]) -> Iterator[checks.CheckMessage]:
    if not (settings.DEBUG or settings.CAYU_ALLOW_SQLITE):
        yield checks.Error(
            f"Database '{alias}' is SQLite with DEBUG off: one machine, one writer at a time.",
            hint="Set DATABASE_URL to a PostgreSQL database, or CAYU_ALLOW_SQLITE=1 if one machine is what you want.",
            id="cayu.E002",
        )
    if database.get("OPTIONS", {}).get("transaction_mode") != "IMMEDIATE":
        yield checks.Error(
            f"Database '{alias}': SQLite transactions do not begin as IMMEDIATE, so two writers are not serialised.",
            hint="Remove transaction_mode from DATABASE_URL.",
            id="cayu.E004",
        )


def check_numbers(**kwargs: Any) -> Iterator[checks.CheckMessage]:
    for name, (least, most) in RANGES.items():
        value = getattr(settings, name)
        if not least <= value <= most:
            yield checks.Error(
                f"{name} is {value}.",
                hint=f"Set {name} to a whole number from {least} to {most}.",
                id="cayu.E005",
            )


def check_authority(**kwargs: Any) -> list[checks.CheckMessage]:
    """An empty CAYU_AUTHORITY is legal: every decision is then refused."""
    if not settings.CAYU_AUTHORITY:
        return []
    try:
        import_string(settings.CAYU_AUTHORITY)
    except ImportError as error:
        return [
            checks.Error(
                f"CAYU_AUTHORITY cannot be loaded: {error}.",
                hint="Set CAYU_AUTHORITY to the dotted path of a class that says who may do what, or leave it unset.",
                id="cayu.E006",
            )
        ]
    return []


def check_providers(**kwargs: Any) -> Iterator[checks.CheckMessage]:
    for prefix, path in settings.CAYU_PROVIDERS.items():
        try:
            import_string(path)
        except ImportError as error:
            yield checks.Error(
                f"CAYU_PROVIDERS names a provider for '{prefix}' that cannot be loaded: {error}.",
                hint="Give CAYU_PROVIDERS as prefix=dotted.path.to.Provider, several separated by commas.",
                id="cayu.E007",
            )


def check_secrets(**kwargs: Any) -> list[checks.CheckMessage]:
    try:
        import_string(settings.CAYU_SECRETS)
    except ImportError as error:
        return [
            checks.Error(
                f"CAYU_SECRETS cannot be loaded: {error}.",
                hint="Set CAYU_SECRETS to the dotted path of a class with resolve(tenant, name, version), or unset it.",
                id="cayu.E008",
            )
        ]
    return []


def check_cookies(**kwargs: Any) -> list[checks.CheckMessage]:
    public = sorted(set(settings.ALLOWED_HOSTS) - LOCAL_HOSTS)
    if not settings.CAYU_INSECURE_COOKIES or not public:
        return []
    return [
        checks.Warning(
            f"CAYU_INSECURE_COOKIES is on, and ALLOWED_HOSTS names {', '.join(public)}: "
            "a sign-in can be read on the way.",
            hint="Serve over https and remove CAYU_INSECURE_COOKIES.",
            id="cayu.W001",
        )
    ]


def check_test_switches(**kwargs: Any) -> list[checks.CheckMessage]:
    if not settings.CAYU_TEST_DURABILITY_OFF:
        return []
    return [
        checks.Warning(
            "CAYU_TEST_DURABILITY_OFF is on: a power cut may lose approvals and receipts.",
            hint="Remove CAYU_TEST_DURABILITY_OFF everywhere but in tests.",
            id="cayu.W002",
        )
    ]


def check_queue(**kwargs: Any) -> Iterator[checks.CheckMessage]:
    queue = settings.Q_CLUSTER
    named = [name for name in OTHER_BROKERS if queue.get(name)]
    if queue.get("orm") != "default" or named:
        yield checks.Error(
            f"Q_CLUSTER does not keep wake-ups in the database ({', '.join(named) or 'orm is not default'}), "
            "so one could run before, or survive, the transaction that rang it.",
            hint="Set Q_CLUSTER['orm'] to 'default' and name no other broker.",
            id="cayu.E020",
        )
    for name, (wanted, reason) in FIXED_QUEUE_SETTINGS.items():
        value = queue.get(name, HARMLESS_DEFAULTS.get(name, ABSENT))
        if value != wanted:
            yield _queue_error(name, queue.get(name), f"{wanted!r} ({reason})")
    timeout, retry = _whole_seconds(queue.get("timeout")), _whole_seconds(queue.get("retry"))
    if timeout < DAY:
        yield _queue_error("timeout", timeout, "24 hours or more (q2 ends a task at its timeout, inside the tool)")
    if retry < timeout + 3600:
        yield _queue_error("retry", retry, "an hour more than timeout (q2 delivers again what still runs)")
    if queue.get("ALT_CLUSTERS"):
        yield _queue_error("ALT_CLUSTERS", "set", "absent (an alternative cluster may override any of these)")


def _whole_seconds(value: Any) -> int:
    """0 for what q2 could not count with."""
    return value if isinstance(value, int) else 0


def _queue_error(name: str, value: Any, wanted: str) -> checks.Error:
    return checks.Error(
        f"Q_CLUSTER['{name}'] is {value!r}: q2 could end or redeliver our work.",
        hint=f"Set Q_CLUSTER['{name}'] to {wanted}.",
        id="cayu.E021",
    )


def check_durability(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> Iterator[checks.CheckMessage]:
    """Ask each database itself. One that does not answer is no statement: `/health/ready` reports that."""
    if settings.CAYU_TEST_DURABILITY_OFF:
        return
    for alias in databases or ():
        try:
            weaknesses = list(_weaknesses(alias))
        except (DatabaseError, InterfaceError):
            continue
        for weakness, hint in weaknesses:
            yield checks.Error(
                f"Database '{alias}' may lose what it said was committed: {weakness}.", hint=hint, id="cayu.E010"
            )


def _weaknesses(alias: str) -> Iterator[tuple[str, str]]:
    connection = connections[alias]
    with connection.cursor() as cursor:

        def ask(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchone()[0]

        if connection.vendor == "postgresql":
            for name in ("fsync", "full_page_writes", "synchronous_commit"):
                if ask(f"SHOW {name}") == "off":
                    yield f"{name} is off", f"Set {name} = on in the server's configuration, the role and the database."
        elif connection.vendor == "sqlite":
            if ask("PRAGMA journal_mode") != "wal":
                yield "journal_mode is not WAL", "Remove init_command from DATABASE_URL; use a file on a local disk."
            if ask("PRAGMA synchronous") < 2:
                yield "synchronous is below FULL", "Remove init_command from DATABASE_URL."


CHECKS: list[tuple[Callable[..., Any], str]] = [
    (check_secret_key, checks.Tags.security),
    (check_database_kind, checks.Tags.compatibility),
    (check_numbers, checks.Tags.compatibility),
    (check_authority, checks.Tags.compatibility),
    (check_providers, checks.Tags.compatibility),
    (check_secrets, checks.Tags.compatibility),
    (check_cookies, checks.Tags.security),
    (check_test_switches, checks.Tags.compatibility),
    (check_queue, checks.Tags.compatibility),
    (check_durability, checks.Tags.database),
]


def register_checks() -> None:
    for check, tag in CHECKS:
        checks.register(check, tag)


def refuse_unsafe_start() -> None:
    """Raise ImproperlyConfigured with every error and its hint: a web server runs no system checks of its own."""
    # A server may load us inside its event loop, where Django allows no query: ask from a thread, which then hangs up.
    with ThreadPoolExecutor(max_workers=1) as thread:
        messages = thread.submit(_run_all_checks).result()
    errors = [message for message in messages if message.is_serious() and not message.is_silenced()]
    if errors:
        raise ImproperlyConfigured("\n".join(["The configuration is refused.", *map(str, errors)]))


def _run_all_checks() -> list[checks.CheckMessage]:
    try:
        return checks.run_checks(databases=list(settings.DATABASES))
    finally:
        connections.close_all()
