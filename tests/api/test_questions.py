"""What an agent asks, over HTTP: told to agent clients, answered by people."""

from __future__ import annotations

from tests.api.clients import ApiClient, agent_client, problem
from tests.web.office import Office


def test_a_question_is_answered_once_by_a_person(office: Office, agent: ApiClient, alice: ApiClient) -> None:
    question = office.question("In full?", choices=["yes", "no"])
    (told,) = agent.get("pending-actions/", {"kind": "pending_user_input"}).json()["results"]
    assert (told["id"], told["kind"], told["tool"]) == (str(question.id), "pending_user_input", "ask_user")
    assert not {"text", "choices", "digest"} & set(told)
    (asked,) = alice.get("pending-actions/", {"kind": "pending_user_input"}).json()["results"]
    assert (asked["text"], asked["choices"]) == ("In full?", ["yes", "no"])

    path, body = f"questions/{asked['id']}/answer/", {"answer": "yes", "digest": asked["digest"]}
    problem(alice.post(path, {"answer": "yes"}), 400, "invalid_request")
    problem(alice.post(path, {**body, "answer": "perhaps"}), 400, "invalid_request")
    problem(alice.post(path, {**body, "digest": "0" * 64}), 409, "digest_mismatch")
    for person in (office.alice, office.bob):
        problem(agent_client(person, office.north).post(path, body), 403, "not_permitted")
    answered = alice.post(path, body)
    assert answered.status_code == 200
    assert (answered.json()["state"], answered.json()["answer"], answered.json()["replay"]) == (
        "answered",
        "yes",
        False,
    )
    again = alice.post(path, body)
    assert (again.status_code, again.json()["replay"]) == (200, True)
    problem(alice.post(path, {**body, "answer": "no"}), 409, "already_decided")
    assert agent.get("pending-actions/", {"kind": "pending_user_input"}).json()["results"] == []
