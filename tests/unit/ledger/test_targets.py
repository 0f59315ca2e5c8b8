"""Targets that drift and changes that correct them, as the demo's second agent finds them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.unit.ledger.observer import rows

CHANGE = {"action_id": "change-0001", "target": "demo", "reason": "observed_drift"}


def steps(db: Path) -> list[str]:
    return [kind for (kind,) in rows(db, "SELECT kind FROM steps ORDER BY id")]


def observed(client: httpx.Client, target: str = "demo") -> dict[str, object]:
    answer = client.get("/targets", params={"name": target}).json()
    assert isinstance(answer, dict)
    return answer


def test_a_target_has_drifted_until_a_change_corrects_it_and_may_drift_again(client: httpx.Client, db: Path) -> None:
    assert observed(client) == {"target": "demo", "observation": 1, "drifted": True}
    assert client.post("/changes", json=CHANGE).status_code == 201
    assert observed(client)["drifted"] is False
    assert observed(client, "other")["drifted"] is True
    assert client.post("/drifts", json={"target": "demo"}).status_code == 200
    assert observed(client)["drifted"] is True
    assert steps(db) == ["observed", "apply_started", "apply_finished", "observed", "observed", "observed"]


def test_a_change_under_one_identity_is_applied_once(client: httpx.Client, db: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post("/changes", json=CHANGE), range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] * 15 + [201]
    assert answers[0].json() == CHANGE | {"status": "applied", "replayed": answers[0].status_code == 200}
    assert rows(db, "SELECT action_id, target FROM changes") == [("change-0001", "demo")]


def test_another_change_under_the_same_identity_conflicts(client: httpx.Client, db: Path) -> None:
    client.post("/changes", json=CHANGE)
    assert client.post("/changes", json=CHANGE | {"target": "other"}).status_code == 409
    assert rows(db, "SELECT target FROM changes") == [("demo",)]


def test_verification_looks_at_the_target_as_it_is_now(client: httpx.Client, db: Path) -> None:
    assert client.get("/changes", params={"action_id": "change-0001"}).status_code == 404
    client.post("/changes", json=CHANGE)
    seen = client.get("/changes", params={"action_id": "change-0001"})
    assert (seen.status_code, seen.json()) == (200, {"found": True, "target": "demo", "drifted": False})
    client.post("/drifts", json={"target": "demo"})
    assert client.get("/changes", params={"action_id": "change-0001"}).json()["drifted"] is True
    assert steps(db)[0] == "verified"


@pytest.mark.parametrize(
    "fields",
    [{}, CHANGE | {"more": "1"}, CHANGE | {"target": "Demo!"}, CHANGE | {"action_id": "a b"}, CHANGE | {"reason": 1}],
)
def test_a_change_that_cannot_be_read_is_refused(client: httpx.Client, db: Path, fields: dict[str, str]) -> None:
    assert client.post("/changes", json=fields).status_code == 400
    assert rows(db, "SELECT * FROM changes") == []


def test_the_page_lists_changes(client: httpx.Client) -> None:
    assert "No change has been applied yet." in client.get("/").text
    client.post("/changes", json=CHANGE)
    assert "<td>demo</td><td>observed_drift</td><td>change-0001</td>" in client.get("/").text
