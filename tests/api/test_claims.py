"""Saying over the API that one is looking at an approval."""

from __future__ import annotations

import pytest

from cayu_review.models import Claim
from cayu_runtime.models import Approval
from tests.api.clients import ApiClient, person_client, problem
from tests.web.office import Office


@pytest.fixture
def asked(office: Office) -> Approval:
    return office.approval(office.ask())


def test_a_person_claims_and_gives_back(asked: Approval, alice: ApiClient) -> None:
    answer = alice.post(f"approvals/{asked.pk}/claim/")
    assert answer.status_code == 200
    assert set(answer.json()) == {"approval", "holder_name", "since", "until"}
    assert (answer.json()["approval"], answer.json()["holder_name"]) == (str(asked.pk), "alice")
    for _ in range(2):
        assert alice.post(f"approvals/{asked.pk}/release/").status_code == 204
    assert not Claim.objects.exists()


def test_a_claimed_one_is_refused_with_the_name_and_decided_all_the_same(
    office: Office, asked: Approval, alice: ApiClient
) -> None:
    erin = person_client(office.erin)
    alice.post(f"approvals/{asked.pk}/claim/")
    said = problem(erin.post(f"approvals/{asked.pk}/claim/"), 409, "claimed")
    assert said["claim"]["by"] == "alice"
    seen = {"version": asked.version, "digest": asked.intent_digest.hex()}
    assert erin.post(f"approvals/{asked.pk}/decide/", {"decision": "approve", **seen}).status_code == 200
    problem(alice.post(f"approvals/{asked.pk}/claim/"), 409, "conflict")


@pytest.mark.parametrize("deed", ["claim", "release"])
def test_agents_viewers_requesters_and_other_tenants_do_neither(
    deed: str, office: Office, asked: Approval, agent: ApiClient
) -> None:
    problem(agent.post(f"approvals/{asked.pk}/{deed}/"), 403, "not_permitted")
    problem(person_client(office.bob).post(f"approvals/{asked.pk}/{deed}/"), 403, "own_request")
    problem(person_client(office.carol).post(f"approvals/{asked.pk}/{deed}/"), 404, "not_found")
    problem(person_client(office.alice).post(f"approvals/{asked.pk}/{deed}/", {"for": "me"}), 400, "invalid_request")
    assert not Claim.objects.exists()
