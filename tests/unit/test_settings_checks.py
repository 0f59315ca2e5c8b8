"""Each refusal has an id and a hint, and what is right is let through."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.checks import CheckMessage

from cayu_project import checks
from cayu_project.databases import POSTGRESQL, SQLITE


def ids(check: Callable[..., Any]) -> list[str]:
    messages: list[CheckMessage] = list(check())
    assert all(message.hint for message in messages), "every refusal says the fix"
    return [str(message.id) for message in messages]


def test_a_missing_secret_key_is_refused(settings: Any) -> None:
    settings.SECRET_KEY_IS_MISSING = True
    assert ids(checks.check_secret_key) == ["cayu.E001"]
    settings.SECRET_KEY_IS_MISSING = False
    assert ids(checks.check_secret_key) == []


@pytest.mark.parametrize(
    "debug, allowed, wanted", [(False, False, ["cayu.E002"]), (False, True, []), (True, False, []), (True, True, [])]
)
def test_sqlite_with_debug_off_has_to_be_asked_for(
    settings: Any, monkeypatch: pytest.MonkeyPatch, debug: bool, allowed: bool, wanted: list[str]
) -> None:
    database = {"ENGINE": SQLITE, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
    monkeypatch.setattr(django_settings, "DATABASES", {"default": database})
    settings.DEBUG, settings.CAYU_ALLOW_SQLITE = debug, allowed
    assert ids(checks.check_database_kind) == wanted


@pytest.mark.parametrize(
    "database, wanted",
    [
        ({"ENGINE": POSTGRESQL}, []),
        ({"ENGINE": "django.db.backends.mysql"}, ["cayu.E003"]),
        ({}, ["cayu.E003"]),
        ({"ENGINE": SQLITE, "OPTIONS": {"transaction_mode": "DEFERRED"}}, ["cayu.E004"]),
        ({"ENGINE": SQLITE}, ["cayu.E004"]),
    ],
)
def test_other_databases_and_unserialised_writes_are_refused(
    settings: Any, monkeypatch: pytest.MonkeyPatch, database: dict[str, Any], wanted: list[str]
) -> None:
    monkeypatch.setattr(django_settings, "DATABASES", {"default": database})
    settings.CAYU_ALLOW_SQLITE = True
    assert ids(checks.check_database_kind) == wanted


@pytest.mark.parametrize("name", checks.RANGES)
def test_numbers_stay_in_their_range(settings: Any, name: str) -> None:
    least, most = checks.RANGES[name]
    for value, wanted in ((least - 1, ["cayu.E005"]), (least, []), (most, []), (most + 1, ["cayu.E005"])):
        setattr(settings, name, value)
        assert ids(checks.check_numbers) == wanted


def test_an_authority_that_cannot_be_loaded_is_refused_and_none_is_legal(settings: Any) -> None:
    settings.CAYU_AUTHORITY = "cayu_project.nowhere.Authority"
    assert ids(checks.check_authority) == ["cayu.E006"]
    settings.CAYU_AUTHORITY = ""
    assert ids(checks.check_authority) == []


def test_a_source_of_secrets_that_cannot_be_loaded_is_refused(settings: Any) -> None:
    assert ids(checks.check_secrets) == []
    settings.CAYU_SECRETS = "cayu_project.nowhere.Vault"
    assert ids(checks.check_secrets) == ["cayu.E008"]


def test_a_provider_that_cannot_be_loaded_is_refused(settings: Any) -> None:
    settings.CAYU_PROVIDERS = {"good": "pathlib.Path", "bad": "cayu_project.nowhere.Provider", "worse": "nodots"}
    assert ids(checks.check_providers) == ["cayu.E007", "cayu.E007"]


@pytest.mark.parametrize(
    "insecure, hosts, wanted",
    [
        (True, ["localhost", "127.0.0.1", "[::1]"], []),
        (True, ["localhost", "cayu.example.org"], ["cayu.W001"]),
        (True, ["*"], ["cayu.W001"]),
        (False, ["cayu.example.org"], []),
    ],
)
def test_plain_http_cookies_for_a_public_host_are_warned_of(
    settings: Any, insecure: bool, hosts: list[str], wanted: list[str]
) -> None:
    settings.CAYU_INSECURE_COOKIES, settings.ALLOWED_HOSTS = insecure, hosts
    assert ids(checks.check_cookies) == wanted


def test_the_tests_own_switch_is_warned_of(settings: Any) -> None:
    settings.CAYU_TEST_DURABILITY_OFF = True
    assert ids(checks.check_test_switches) == ["cayu.W002"]
    settings.CAYU_TEST_DURABILITY_OFF = False
    assert ids(checks.check_test_switches) == []


def test_the_queue_settings_as_shipped_are_let_through() -> None:
    assert ids(checks.check_queue) == []


@pytest.mark.parametrize(
    "change",
    [
        {"workers": 2}, {"workers": None},
        {"timeout": None}, {"timeout": 60}, {"timeout": 24 * 3600 - 1}, {"timeout": "86400"}, {"timeout": 1e9},
        {"retry": 60}, {"retry": None}, {"retry": 24 * 3600}, {"timeout": 48 * 3600}, {"retry": "90000"},
        {"recycle": 1}, {"recycle": None}, {"max_rss": 500_000},
        {"ack_failures": False}, {"ack_failures": None},
        {"max_attempts": 0}, {"max_attempts": 3}, {"max_attempts": None},
        {"queue_limit": 4}, {"queue_limit": None},
        {"bulk": 10}, {"bulk": None},
        {"sync": True}, {"testing": True},
        {"ALT_CLUSTERS": {"fast": {"timeout": 5}}},
    ],
    ids=str,
)  # fmt: skip
def test_b12_queue_settings_that_could_end_or_redeliver_our_work_are_refused(
    settings: Any, change: dict[str, Any]
) -> None:
    settings.Q_CLUSTER = changed(django_settings.Q_CLUSTER, change)
    assert set(ids(checks.check_queue)) == {"cayu.E021"}


@pytest.mark.parametrize(
    "change", [{"orm": None}, {"orm": "other"}, {"redis": {"host": "127.0.0.1"}}, {"broker_class": "a.Broker"}], ids=str
)
def test_b12_a_queue_outside_the_database_is_refused(settings: Any, change: dict[str, Any]) -> None:
    settings.Q_CLUSTER = changed(django_settings.Q_CLUSTER, change)
    assert ids(checks.check_queue) == ["cayu.E020"]


def changed(queue: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """None takes a setting away, so that q2's own default would hold."""
    return {name: value for name, value in {**queue, **change}.items() if value is not None}
