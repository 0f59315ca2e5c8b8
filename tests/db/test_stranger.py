"""The stranger's agent in this process, tested as a stranger would: by `cayu_runtime.testing` alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from cayu_runtime import Finding, Inquiry
from cayu_runtime.testing import EffectStatus, Harness, verify_tool_effect
from tests.architecture.rules import ROOT
from tests.stranger_app.accounts import Accounts
from tests.stranger_app.agents import CLERK
from tests.stranger_app.close_account import CloseAccount
from tests.stranger_app.look_up import look_up

pytestmark = pytest.mark.django_db


@pytest.fixture
def accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Accounts:
    monkeypatch.setenv("STRANGER_FOLDER", str(tmp_path))
    return Accounts(tmp_path)


@pytest.fixture
def harness(settings: Settings, accounts: Accounts) -> Harness:
    settings.CAYU_PROVIDERS = {"stranger": "tests.stranger_app.provider.model"}
    return Harness(CLERK)


def test_its_provider_its_tools_and_its_policy_work_together(harness: Harness, accounts: Accounts):
    run = harness.start("close a-17").go()
    assert [(one.tool, one.verb) for one in run.waiting()] == [("close_account", "Close account")]
    assert accounts.closings() == []
    run.approve().go()
    assert (run.state, run.text()) == ("completed", "Closed a-17.")
    assert [closing["account"] for closing in accounts.closings()] == ["a-17"]
    assert [call.arguments for call in run.calls()] == [{"account": "a-17"}, {"account": "a-17", "notify": True}]


def test_its_policy_denies_and_its_tool_can_say_that_it_did_not_act(harness: Harness, accounts: Accounts):
    run = harness.start("close vip-1").go()
    assert (run.state, run.text()) == ("completed", "This account is protected.")
    accounts.close("a-17", "by hand")
    run = harness.start("close a-17").go().approve().go()
    assert ([effect.state for effect in run.effects()], run.text()) == (["rejected"], "Account a-17 is closed already.")


def test_its_tools_do_what_they_declare(tmp_path: Path):
    accounts = {"accounts": Accounts(tmp_path)}
    read = verify_tool_effect(look_up, {"account": "a-17"}, resources=accounts)
    assert (read.status, read.content) == (EffectStatus.CONSISTENT, "open")
    acted = verify_tool_effect(CloseAccount(), {"account": "a-17"}, resources=accounts, allow_effects=True)
    assert (acted.status, acted.outside) == (EffectStatus.OBSERVED, (str(tmp_path / "closed"),))
    assert verify_tool_effect(look_up, {"account": "a-17"}, resources=accounts).content == "closed"


def test_its_reconciler_is_registered_and_finds_what_became_of_a_call(harness: Harness, accounts: Accounts):
    run = harness.start("close a-17").go().approve().go()
    [effect] = run.effects()
    call = run.calls()[-1]
    [registered] = [tool.reconciler for tool in CLERK.tools if tool.spec.name == "close_account"]
    assert registered is not None

    def asked(key: str, account: str = "a-17") -> Inquiry:
        return Inquiry(
            effect.operation_id, key, str(effect.dispatch_id), str(harness.tenant.pk), run.session.session_id,
            call.tool, call.tool_version, {"account": account}, resources=CLERK.resources,
        )  # fmt: skip

    ours = effect.idempotency_key
    assert registered.lookup(asked(ours)).finding is Finding.CONFIRMED_DONE
    assert registered.lookup(asked("another key")).finding is Finding.ABSENT
    assert registered.lookup(asked(ours, "a-18")).finding is Finding.CONFLICT
    assert registered.validate_receipt({"account": "a-17"}, asked(ours)).finding is Finding.CONFIRMED_DONE
    assert registered.validate_receipt({"account": "a-18"}, asked(ours)).finding is Finding.CONFLICT
    accounts.file.write_text("no JSON")
    assert registered.lookup(asked(ours)).finding is Finding.UNAVAILABLE


def test_nothing_outside_its_folder_knows_it():
    ours = [path for app in ("cayu_project", "cayu_review", "cayu_runtime") for path in (ROOT / app).rglob("*.py")]
    assert len(ours) > 100
    assert [path for path in ours if "stranger" in path.read_text().lower()] == []
