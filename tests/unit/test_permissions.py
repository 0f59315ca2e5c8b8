"""Each question to the authority, answered from roles that stand here in place of the database's."""

import uuid
from typing import Any

import pytest

from cayu_review import permissions
from cayu_review.permissions import MembershipAuthority
from cayu_runtime.contracts import Actor, Permit, Refusal
from cayu_runtime.models import Approval, Tenant

NORTH, SOUTH = uuid.UUID(int=1), uuid.UUID(int=2)
HELD = {
    (NORTH, "user:1"): {"viewer"},
    (NORTH, "user:2"): {"approver"},
    (SOUTH, "user:3"): {"viewer", "approver"},
}


@pytest.fixture(autouse=True)
def roles(monkeypatch: pytest.MonkeyPatch) -> None:
    held = lambda tenant, subject: frozenset(HELD.get((tenant, subject), ()))  # noqa: E731
    monkeypatch.setattr(permissions, "roles_of", held)


def actor(subject: str, tenant: uuid.UUID = NORTH, source: str = "web", **more: Any) -> Actor:
    return Actor(subject, "somebody", tenant, source, **more)


def approval(requester: str = "user:9", four_eyes: bool = True, tenant: uuid.UUID = NORTH) -> Approval:
    return Approval(tenant_id=tenant, requester=requester, four_eyes=four_eyes)


def code(answer: Permit | Refusal) -> str:
    return answer.code if isinstance(answer, Refusal) else "permitted"


def may(who: Actor, action: str, obj: Any = None) -> str:
    return code(MembershipAuthority().may(who, action, obj))


@pytest.mark.parametrize(
    "subject, answer", [("user:1", "permitted"), ("user:2", "permitted"), ("user:3", "not_permitted")]
)
def test_any_role_in_the_tenant_views_and_starts(subject: str, answer: str) -> None:
    assert may(actor(subject), "view") == answer
    assert may(actor(subject), "start_session", Tenant(id=NORTH)) == answer


def test_a_session_is_started_only_in_the_active_tenant() -> None:
    assert may(actor("user:1"), "start_session", Tenant(id=SOUTH)) == "not_permitted"


def test_deciding_needs_the_role_approver() -> None:
    assert may(actor("user:2"), "decide", approval()) == "permitted"
    assert may(actor("user:1"), "decide", approval()) == "not_permitted"


def test_a_role_in_another_tenant_is_no_role_here() -> None:
    assert may(actor("user:3"), "decide", approval()) == "not_permitted"
    assert may(actor("user:2", tenant=SOUTH), "decide", approval()) == "not_permitted"


def test_roles_that_the_actor_carries_count_for_nothing() -> None:
    assert may(actor("user:1", roles=("approver",)), "decide", approval()) == "not_permitted"


def test_own_requests_are_refused_under_four_eyes_to_everybody() -> None:  # A22
    assert may(actor("user:2"), "decide", approval("user:2")) == "own_request"
    assert may(actor("user:2", is_superuser=True), "decide", approval("user:2")) == "own_request"
    assert may(actor("user:1"), "decide", approval("user:1")) == "own_request"
    assert may(actor("user:2"), "decide", approval("user:2", four_eyes=False)) == "permitted"


def test_a_superuser_without_a_role_has_no_authority() -> None:
    root = actor("user:7", is_superuser=True)
    assert may(root, "decide", approval()) == "not_permitted"
    assert may(root, "view") == "not_permitted"
    assert may(root, "start_session", Tenant(id=NORTH)) == "not_permitted"


@pytest.mark.parametrize(
    "agent",
    [actor("token:abc", source="api"), actor("user:2", source="api"), actor("system:sweep", source="system")],
    ids=["token", "person's name through the API", "system"],
)
def test_what_is_no_person_never_decides(agent: Actor) -> None:
    assert may(agent, "decide", approval()) == "not_permitted"


@pytest.mark.parametrize("action", ["grant_role", "", "DECIDE", "abandon"])
def test_an_unknown_question_is_refused(action: str) -> None:
    assert may(actor("user:2"), action) == "not_permitted"


def test_every_refusal_is_a_whole_sentence() -> None:
    refusals = [permissions.OWN_REQUEST, permissions.NO_ROLE, permissions.NOT_APPROVER, permissions.ONLY_PEOPLE]
    answer = MembershipAuthority().may(actor("user:2"), "stop_the_world", None)
    assert isinstance(answer, Refusal)
    for refusal in [*refusals, answer]:
        assert refusal.reason[0].isupper()
        assert refusal.reason.endswith(".")
