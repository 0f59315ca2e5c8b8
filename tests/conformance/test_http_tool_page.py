"""docs/http-tool.md, followed: its app against the ledger's own process, with each accident that the page names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cayu_runtime import Agent, registry
from cayu_runtime.models import Session
from tests.machine import Machine
from tests.settling import look_up
from tests.unit.ledger.observer import arrived, booked
from tests.unit.ledger.test_process import Process

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "http-tool.md"
TOKEN = "first-class-4711"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path / "ledger.sqlite3")
    yield process
    process.close()


@pytest.fixture
def machine(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Machine:
    settings.CAYU_AUTHORITY = "tests.machine.Everybody"
    monkeypatch.setenv("CAYU_SECRET_BANK_TOKEN", TOKEN)
    return Machine()


@pytest.fixture
def cashier(ledger: Process) -> Agent:
    """The page's own code, at this ledger's address."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert code.count("http://127.0.0.1:8001") == 1
    names: dict[str, Any] = {}
    exec(compile(code.replace("http://127.0.0.1:8001", ledger.url), str(PAGE), "exec"), names)
    agent: Agent = names["CASHIER"]
    registry.register_for_test(agent)
    return agent


def approved(machine: Machine, agent: Agent, text: str) -> Session:
    session = machine.start(agent, text)
    machine.decide(machine.approvals(session)[0], "approve")
    return machine.run(session)


def test_an_amount_is_booked_and_the_reference_alone_is_on_record(
    machine: Machine, cashier: Agent, tmp_path: Path
) -> None:
    session = approved(machine, cashier, "1042 25.50")
    assert session.state == "completed"
    assert re.fullmatch(r"Booked as rf_\w+\.", machine.last_text(session))
    (call,) = machine.calls(session)
    assert call.arguments["credential"] == {"$secret": "bank-token"}
    assert TOKEN not in str([call.result, machine.transcript(session), machine.effect(session).receipt])
    assert [(order, amount) for _, order, amount in booked(tmp_path / "ledger.sqlite3")] == [("1042", "25.50")]


@pytest.mark.parametrize("accident", ["drop_after_commit", "error_after"])
def test_a_lost_answer_is_found(machine: Machine, cashier: Agent, tmp_path: Path, accident: str) -> None:
    session = approved(machine, cashier, f"7 3.00 {accident}")
    assert session.interruption == "effect_outcome_unknown"
    look_up(machine, machine.effect(session))
    machine.run(session)
    assert (machine.effect(session).state, session.state) == ("completed", "completed")
    assert machine.last_text(session).startswith("Booked as rf_")
    assert len(arrived(tmp_path / "ledger.sqlite3")) == 1


def test_a_lost_request_is_barred_and_sent_once_more(machine: Machine, cashier: Agent, tmp_path: Path) -> None:
    session = approved(machine, cashier, "8 3.00 drop_before_commit")
    look_up(machine, machine.effect(session))
    assert machine.effect(session).state == "safe_to_retry"
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (machine.effect(session).state, session.state) == ("completed", "completed")
    keys = [key for key, _, _ in arrived(tmp_path / "ledger.sqlite3")]
    assert len(set(keys)) == len(keys) == 2
    assert [key for key, _, _ in booked(tmp_path / "ledger.sqlite3")] == keys[1:]


def test_the_page_s_agent_passes_the_system_checks(cashier: Agent) -> None:
    from cayu_runtime.checks import check_agents

    assert [said for said in check_agents() if "cashier" in str(said)] == []
