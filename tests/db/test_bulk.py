"""Several approvals decided as one deed (UX 19; CASES A22, A23): each for itself, with an answer of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from cayu_review.services.membership import grant_role
from cayu_runtime import Call, ToolEffect
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import InvalidRequest
from cayu_runtime.models import Approval, Decision
from cayu_runtime.policies import RequireApproval
from cayu_runtime.services.approval import MAX_ITEMS, Answered, Item, decide_many
from tests.machine import Counter, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)


def waiting(
    machine: Machine,
    count: int = 1,
    *,
    tool: str = "label",
    effect: ToolEffect = ToolEffect.IDEMPOTENT,
    four_eyes: bool | None = None,
) -> tuple[Counter, list[Approval]]:
    """Approvals, each of a session of its own."""
    counter, found = Counter(tool, effect), []
    policy = RequireApproval((tool,), four_eyes=four_eyes)
    for number in range(count):
        agent = agent_of(counter, policy=policy, rounds=[[Call(tool, {"to": f"{tool}-{number}"})]])
        found += machine.approvals(machine.start(agent))
    return counter, found


def item(approval: Approval, **changed: Any) -> Item:
    seen = {"version": approval.version, "digest": bytes(approval.intent_digest).hex(), **changed}
    return Item(approval.pk, **seen)


def decide(machine: Machine, items: list[Item], verdict: str = "approve", **options: Any) -> list[Answered]:
    actor = options.pop("actor", machine.bob)
    return decide_many(machine.tenant, actor, items, verdict=verdict, **options)


def states(approvals: list[Approval]) -> list[str]:
    return [Approval.objects.get(pk=approval.pk).state for approval in approvals]


@pytest.mark.parametrize("verdict, becomes", [("approve", "approved"), ("deny", "denied")])
def test_of_ten_five_are_done_and_five_are_named_with_their_reason(
    machine: Machine, verdict: str, becomes: str
) -> None:  # A23
    counter, ten = waiting(machine, 10)
    for other in ten[1:4]:
        machine.decide(other, "deny", machine.carol)
    Approval.objects.filter(pk=ten[5].pk).update(
        created_at=ten[5].created_at - timedelta(days=9), expires_at=ten[5].created_at - timedelta(days=1)
    )
    items = [item(approval) for approval in ten]
    items[7] = item(ten[7], version=2)
    answers = decide(machine, items, verdict, reason="all alike")
    assert [answer.code for answer in answers] == [
        "done", "already_decided", "already_decided", "already_decided", "done", "approval_expired", "done",
        "stale_version", "done", "done",
    ]  # fmt: skip
    assert sum(answer.done for answer in answers) == 5
    assert all("Already denied by carol at" in answer.message for answer in answers[1:4])
    assert "The time to decide ended at" in answers[5].message
    assert "changed since" in answers[7].message
    expected = [becomes, "denied", "denied", "denied", becomes, "expired", becomes, "pending", becomes, becomes]
    assert states(ten) == expected
    mine = Decision.objects.filter(actor="user:bob")
    assert [d.reason for d in mine] == ["all alike"] * 5
    for approval in ten:
        machine.run(approval.session)
    assert counter.count == (5 if verdict == "approve" else 0)


def test_an_answer_has_the_approval_as_it_is_now(machine: Machine) -> None:
    _, (one, two) = waiting(machine, 2)
    machine.decide(two, "approve", machine.carol)
    answers = decide(machine, [item(one), item(two)])
    assert [a.approval and a.approval.state for a in answers] == ["approved", "approved"]
    assert answers[1].approval is not None
    assert answers[1].approval.decided_by_id == Decision.objects.get(actor="user:carol").pk


def test_the_same_set_again_is_its_replay(machine: Machine) -> None:  # A5
    _, found = waiting(machine, 3)
    items = [item(approval) for approval in found]
    decide(machine, items)
    again = decide(machine, items)
    assert [(answer.code, answer.done) for answer in again] == [("replay", True)] * 3
    assert Decision.objects.count() == 3


def test_external_effects_and_other_verbs_leave_the_set(machine: Machine) -> None:
    pay, (money,) = waiting(machine, tool="pay", effect=ToolEffect.EXTERNAL)
    _, (label,) = waiting(machine)
    _, (file,) = waiting(machine, tool="file")
    answers = decide(machine, [item(money), item(label), item(file)])
    assert [answer.code for answer in answers] == ["not_together", "done", "not_together"]
    assert "Only idempotent effects" in answers[0].message
    assert "another kind of action" in answers[2].message
    assert states([money, label, file]) == ["pending", "approved", "pending"]
    assert pay.count == 0


def test_what_the_tenant_does_not_have_is_not_there(machine: Machine) -> None:  # D1
    _, (mine,) = waiting(machine)
    _, (foreign,) = waiting(Machine())
    answers = decide(machine, [item(foreign), item(mine)])
    assert [(answer.code, answer.approval is None) for answer in answers] == [("not_found", True), ("done", False)]
    assert states([foreign]) == ["pending"]


@pytest.mark.parametrize("effect, four_eyes", [(ToolEffect.IDEMPOTENT, True), (ToolEffect.EXTERNAL, None)])
def test_own_requests_leave_the_set(
    machine: Machine, settings: Settings, django_user_model: Any, effect: ToolEffect, four_eyes: bool | None
) -> None:  # A22
    settings.CAYU_AUTHORITY = "cayu_review.permissions.MembershipAuthority"
    alice = django_user_model.objects.create_superuser("alice")
    bob = django_user_model.objects.create_user("bob")
    for person in (alice, bob):
        grant_role(person, machine.tenant, "approver")
    actors = {
        user.username: Actor(
            f"user:{user.pk}", user.username, machine.tenant.id, "web", ("approver",), user.is_superuser
        )
        for user in (alice, bob)
    }
    machine.alice = actors["alice"]
    _, own = waiting(machine, 2, effect=effect, four_eyes=four_eyes)
    machine.alice = actors["bob"]
    _, others = waiting(machine, 1)
    for verdict in ("deny", "approve"):
        answers = decide(machine, [item(a) for a in [*own, *others]], verdict, actor=actors["alice"], reason="mine")
        assert [answer.code for answer in answers[:2]] == ["own_request", "own_request"]
        assert "You asked for this yourself" in answers[0].message
    assert states(own) == ["pending", "pending"]
    assert states(others) == ["denied"]


def test_agents_decide_nothing_in_a_set_either(machine: Machine, settings: Settings) -> None:
    _, found = waiting(machine, 2)
    settings.CAYU_AUTHORITY = "cayu_review.permissions.MembershipAuthority"
    token = Actor("token:1", "an agent", machine.tenant.id, "api")
    answers = decide(machine, [item(approval) for approval in found], actor=token)
    assert [answer.code for answer in answers] == ["not_permitted"] * 2
    assert states(found) == ["pending"] * 2


@pytest.mark.parametrize(
    "verdict, reason, times, says",
    [
        ("deny", "  ", 1, "needs a reason"),
        ("revoke", "x", 1, "approve"),
        ("approve", "", 0, "Choose between 1"),
        ("approve", "", 2, "twice"),
    ],
)
def test_a_set_that_is_none_decides_nothing(machine: Machine, verdict: str, reason: str, times: int, says: str) -> None:
    _, found = waiting(machine)
    with pytest.raises(InvalidRequest, match=says):
        decide(machine, [item(found[0])] * times, verdict, reason=reason)
    assert states(found) == ["pending"]


def test_a_set_is_bounded(machine: Machine) -> None:
    _, found = waiting(machine)
    with pytest.raises(InvalidRequest, match=f"between 1 and {MAX_ITEMS}"):
        decide(machine, [item(found[0])] * (MAX_ITEMS + 1))


@pytest.mark.parametrize("digest", ["", "xyz", "ab"])
def test_an_item_without_a_digest_leaves_the_set(machine: Machine, digest: str) -> None:
    _, found = waiting(machine, 2)
    answers = decide(machine, [item(found[0], digest=digest), item(found[1])])
    assert [answer.code for answer in answers] == ["invalid_request", "done"]
    assert states(found) == ["pending", "approved"]
