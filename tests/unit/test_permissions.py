"""Each question to the authority, answered from roles that stand here in place of the database's."""

import uuid
from typing import Any

import pytest

from cayu_review import permissions
from cayu_review.models import Membership
from cayu_review.permissions import MembershipAuthority
from cayu_runtime.contracts import Actor, Permit, Refusal
from cayu_runtime.models import Approval, EffectRecord, Question, Session, Tenant

NORTH, SOUTH = uuid.UUID(int=1), uuid.UUID(int=2)
HELD = {
    (NORTH, "user:1"): {"viewer"},
    (NORTH, "user:2"): {"approver"},
    (SOUTH, "user:3"): {"viewer", "approver"},
    (NORTH, "user:4"): {"auditor"},
    (NORTH, "user:5"): {"administrator"},
    (NORTH, "user:6"): {"reconciler"},
    (NORTH, "user:10"): {"approver"},
    (NORTH, "user:11"): {"reconciler"},
}
LIMITED = {
    "user:10": Membership(role="approver", tools=["refund"], targets=["orders/*"]),
    "user:11": Membership(role="reconciler", tools=["pay*", "refund"]),
}
MADE = ("user:2", "user:8")
ROOT = "user:7"


@pytest.fixture(autouse=True)
def roles(monkeypatch: pytest.MonkeyPatch) -> None:
    def held(tenant: uuid.UUID, subject: str) -> dict[str, Membership]:
        return {role: LIMITED.get(subject, Membership(role=role)) for role in HELD.get((tenant, subject), ())}

    monkeypatch.setattr(permissions, "held_in", held)
    monkeypatch.setattr(permissions, "made_token_for", lambda tenant, maker, person="": (maker, person) == MADE)
    monkeypatch.setattr(permissions, "is_superuser", lambda subject: subject == ROOT)
    monkeypatch.setattr(permissions, "is_of_tenant_alone", lambda user, tenant: user == ("of", tenant))


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
    assert may(actor(subject), "view", Tenant(id=NORTH)) == answer
    assert may(actor(subject), "start_session", Tenant(id=NORTH)) == answer


@pytest.mark.parametrize("subject", ["user:4", "user:5"])
def test_who_only_audits_or_manages_people_views_and_starts_and_decides_nothing(subject: str) -> None:
    assert may(actor(subject), "view", Tenant(id=NORTH)) == "permitted"
    assert may(actor(subject), "start_session", Tenant(id=NORTH)) == "not_permitted"
    assert may(actor(subject), "decide", approval()) == "not_permitted"


@pytest.mark.parametrize("subject", ["user:1", "user:2", "user:5", ROOT])
def test_auditing_needs_the_role_auditor_here(subject: str) -> None:
    assert may(actor("user:4"), "audit", Tenant(id=NORTH)) == "permitted"
    assert may(actor("user:4"), "audit", Tenant(id=SOUTH)) == "not_permitted"
    assert may(actor(subject, is_superuser=True), "audit", Tenant(id=NORTH)) == "not_permitted"


@pytest.mark.parametrize("action", ["grant_role", "revoke_role", "manage_people"])
def test_people_are_managed_by_administrators_of_the_tenant_and_by_superusers(action: str) -> None:
    assert may(actor("user:5"), action, Tenant(id=NORTH)) == "permitted"
    assert may(actor("user:5"), action, Tenant(id=SOUTH)) == "not_permitted"
    assert may(actor("user:5"), action, None) == "not_permitted"
    assert may(actor("user:5", source="api"), action, Tenant(id=NORTH)) == "not_permitted"
    for subject in ("user:1", "user:2", "user:4"):
        assert may(actor(subject, is_superuser=True), action, Tenant(id=NORTH)) == "not_permitted"
    for tenant in (Tenant(id=NORTH), Tenant(id=SOUTH), None):
        assert may(actor(ROOT), action, tenant) == "permitted"
        assert may(actor(ROOT, source="api"), action, tenant) == "not_permitted"


def test_an_account_is_changed_by_who_administers_all_of_it() -> None:
    assert may(actor("user:5"), "manage_account", ("of", NORTH)) == "permitted"
    assert may(actor("user:5"), "manage_account", ("of", SOUTH)) == "not_permitted"
    assert may(actor("user:5", source="api"), "manage_account", ("of", NORTH)) == "not_permitted"
    assert may(actor("user:2"), "manage_account", ("of", NORTH)) == "not_permitted"
    assert may(actor(ROOT), "manage_account", ("of", SOUTH)) == "permitted"


def test_one_takes_part_only_in_the_active_tenant() -> None:
    for action in ("view", "start_session"):
        assert may(actor("user:1"), action, Tenant(id=SOUTH)) == "not_permitted"
        assert may(actor("user:3"), action, Tenant(id=SOUTH)) == "not_permitted"


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


def test_who_made_a_token_decides_nothing_that_is_asked_in_its_persons_name() -> None:  # A22
    assert may(actor("user:2"), "decide", approval("user:8")) == "own_request"
    assert may(actor("user:2"), "revoke", approval("user:8")) == "own_request"
    assert may(actor("user:2"), "decide", approval("user:8", four_eyes=False)) == "permitted"


def test_a_superuser_without_a_role_has_no_authority() -> None:
    root = actor("user:7", is_superuser=True)
    assert may(root, "decide", approval()) == "not_permitted"
    assert may(root, "view", Tenant(id=NORTH)) == "not_permitted"
    assert may(root, "start_session", Tenant(id=NORTH)) == "not_permitted"


@pytest.mark.parametrize(
    "agent",
    [actor("token:abc", source="api"), actor("user:2", source="api"), actor("system:sweep", source="system")],
    ids=["token", "person's name through the API", "system"],
)
def test_what_is_no_person_never_decides(agent: Actor) -> None:
    assert may(agent, "decide", approval()) == "not_permitted"


def test_a_session_is_stopped_by_who_asked_for_it_or_by_an_approver() -> None:
    session = Session(tenant_id=NORTH, requester="user:1")
    assert may(actor("user:1"), "interrupt_session", session) == "permitted"
    assert may(actor("user:2"), "interrupt_session", session) == "permitted"
    assert may(actor("user:1"), "interrupt_session", Session(tenant_id=NORTH, requester="user:2")) == "not_permitted"
    assert may(actor("user:3"), "interrupt_session", session) == "not_permitted"
    assert may(actor("user:3", tenant=SOUTH), "interrupt_session", session) == "not_permitted"


def test_the_kill_switch_is_an_administrators_in_their_tenant_and_an_operators_everywhere() -> None:
    for tenant in (None, Tenant(id=NORTH)):
        assert may(Actor("shell:ops", "ops", None, "shell"), "pause_dispatch", tenant) == "permitted"
        assert may(actor("user:2", is_superuser=True), "pause_dispatch", tenant) == "not_permitted"
        assert may(actor("user:5", source="api"), "pause_dispatch", tenant) == "not_permitted"
    assert may(actor("user:5"), "pause_dispatch", Tenant(id=NORTH)) == "permitted"
    assert may(actor("user:5"), "pause_dispatch", Tenant(id=SOUTH)) == "not_permitted"
    assert may(actor("user:5"), "pause_dispatch", None) == "not_permitted"
    assert may(Actor("shell:ops", "ops", NORTH, "shell"), "decide", approval()) == "not_permitted"


def test_a_quarantine_belongs_to_the_shell() -> None:
    for tenant in (None, Tenant(id=NORTH)):
        assert may(Actor("shell:ops", "ops", None, "shell"), "quarantine", tenant) == "permitted"
        for subject in ("user:2", "user:5", ROOT):
            assert may(actor(subject), "quarantine", tenant) == "not_permitted"


@pytest.mark.parametrize("action", ["", "DECIDE", "abandon"])
def test_an_unknown_question_is_refused(action: str) -> None:
    assert may(actor("user:2"), action) == "not_permitted"


def test_every_refusal_is_a_whole_sentence() -> None:
    refusals = [permissions.OWN_REQUEST, permissions.NO_ROLE, permissions.NOT_APPROVER, permissions.ONLY_PEOPLE]
    refusals += [permissions.NOT_ASKER, permissions.ONLY_OPERATORS, permissions.NOT_STARTER]
    refusals += [permissions.NOT_AUDITOR, permissions.NOT_ADMINISTRATOR, permissions.NOT_YOURS]
    refusals += [permissions.NOT_ASKED, permissions.ONLY_PEOPLE_ANSWER, permissions.OUT_OF_REACH, permissions.OWN_TOKEN]
    refusals += [permissions.NOT_WHOLE, permissions.ONLY_SHELL]
    answer = MembershipAuthority().may(actor("user:2"), "stop_the_world", None)
    assert isinstance(answer, Refusal)
    for refusal in [*refusals, answer]:
        assert refusal.reason[0].isupper()
        assert refusal.reason.endswith(".")


def question(requester: str = "user:9", tenant: uuid.UUID = NORTH) -> Question:
    return Question(tenant_id=tenant, requester=requester)


@pytest.mark.parametrize(
    "who, answer",
    [
        (actor("user:2"), "permitted"),  # an approver
        (actor("user:1"), "not_permitted"),  # a viewer who did not ask
        (actor("user:3"), "not_permitted"),  # a role in another tenant
        (actor("user:2", tenant=SOUTH), "not_permitted"),
        (actor("user:7", is_superuser=True), "not_permitted"),
        (actor("user:1", roles=("approver",)), "not_permitted"),
        (actor("token:abc", source="api"), "not_permitted"),
        (actor("user:2", source="api"), "not_permitted"),
        (actor("system:sweep", source="system"), "not_permitted"),
        (Actor("shell:ops", "ops", NORTH, "shell"), "not_permitted"),
    ],
    ids=["approver", "viewer", "elsewhere", "other tenant", "superuser", "carried role", "token", "api", "system",
         "shell"],
)  # fmt: skip
def test_an_approver_answers_and_nobody_else_who_did_not_ask(who: Actor, answer: str) -> None:
    assert may(who, "answer", question()) == answer


def test_who_asked_for_the_session_answers_its_questions() -> None:
    assert may(actor("user:1"), "answer", question("user:1")) == "permitted"
    assert may(actor("user:2"), "answer", question("user:2")) == "permitted", "four eyes are for deeds"
    assert may(actor("token:abc", source="api"), "answer", question("token:abc")) == "not_permitted"
    assert may(actor("user:7"), "answer", question("user:7")) == "not_permitted", "their role was taken away"
    assert may(actor("user:1", tenant=SOUTH), "answer", question("user:1")) == "not_permitted"


@pytest.mark.parametrize("subject, answer", [
    ("user:1", "not_permitted"), ("user:2", "permitted"), ("user:3", "not_permitted"), ("user:4", "not_permitted"),
    ("user:5", "not_permitted"), ("user:6", "permitted"),
])  # fmt: skip
def test_reconcilers_and_approvers_settle_what_is_uncertain(subject: str, answer: str) -> None:
    assert may(actor(subject), "reconcile", EffectRecord(tenant_id=NORTH)) == answer
    assert may(actor(subject), "abandon_session", Session(tenant_id=NORTH)) == answer
    assert may(actor(subject, source="api"), "reconcile", EffectRecord(tenant_id=NORTH)) == "not_permitted"


def test_a_reconciler_decides_and_starts_nothing() -> None:
    assert may(actor("user:6"), "decide", approval()) == "not_permitted"
    assert may(actor("user:6"), "revoke", approval()) == "not_permitted"
    assert may(actor("user:6"), "start_session", Tenant(id=NORTH)) == "not_permitted"
    assert may(actor("user:6"), "view", Tenant(id=NORTH)) == "permitted"


def reached(tool: str, target: str) -> Approval:
    return Approval(tenant_id=NORTH, requester="user:9", four_eyes=True, tool=tool, target=target)


def test_an_approver_who_is_limited_decides_what_the_limits_name() -> None:
    assert may(actor("user:10"), "decide", reached("refund", "orders/7")) == "permitted"
    assert may(actor("user:10"), "decide", reached("refund", "invoices/7")) == "not_permitted"
    assert may(actor("user:10"), "decide", reached("refunds", "orders/7")) == "not_permitted"
    assert may(actor("user:10"), "revoke", reached("pay", "orders/7")) == "not_permitted"


def test_a_reconciler_who_is_limited_settles_these_effects_and_no_whole_session() -> None:
    for tool, answer in (("payout", "permitted"), ("refund", "permitted"), ("mail", "not_permitted")):
        assert may(actor("user:11"), "reconcile", EffectRecord(tenant_id=NORTH, tool=tool)) == answer
    for action in ("recover_session", "abandon_session"):
        assert may(actor("user:11"), action, Session(tenant_id=NORTH, requester="user:9")) == "not_permitted"
        assert may(actor("user:6"), action, Session(tenant_id=NORTH, requester="user:9")) == "permitted"
