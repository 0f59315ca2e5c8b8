"""An approval whose action equals an uncertain one (C12): held, then told what became of the first."""

from typing import Any

import pytest
from django.test import Client

from cayu_runtime.core import canonical, clock
from cayu_runtime.core.transitions import transition
from cayu_runtime.models import Approval, EffectRecord, ToolCall
from tests.web.office import Office
from tests.web.test_approval_page import button


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


@pytest.fixture
def first(office: Office) -> EffectRecord:
    """A refund of which nobody knows whether it happened."""
    return office.unknown()


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def page_of(client: Client, approval: Approval) -> str:
    return text(client.get(f"/approvals/{approval.id}/"))


def settle(effect: EffectRecord, state: str) -> None:
    """What evidence does to an unknown effect and its call."""
    with transition(effect.session_id) as change:
        receipt = {"outcome": state}
        result = {"status": "completed" if state == "completed" else "failed"}
        change.move(ToolCall.objects.get(pk=effect.call_id), result["status"], result=result)
        found = EffectRecord.objects.get(pk=effect.pk)
        change.move(found, state, receipt=receipt, receipt_digest=canonical.digest(receipt))


def test_a_held_one_says_so_leads_to_the_first_and_can_only_be_denied(
    office: Office, alice: Client, first: EffectRecord
) -> None:
    approval = office.approval(office.ask())
    page = page_of(alice, approval)
    assert "Held: an equal action is uncertain" in page
    assert f'href="/effects/{first.id}/"' in page
    assert "disabled" in button(page, "Approve and refund order 1042")
    assert "This one can be approved once that is settled." in page
    assert 'class="confirm"' not in page
    for where in ("confirm", "decide"):
        answer = alice.post(f"/approvals/{approval.id}/{where}/", office.form(approval, "approve", reason="my words"))
        assert 'class="confirm"' not in text(answer)
        assert ">my words</textarea>" in text(answer)
    assert answer.status_code == 409
    assert "An equal action is uncertain" in text(answer)
    assert Approval.objects.get(pk=approval.pk).state == "pending"
    assert "disabled" not in button(page, "Deny")
    denied = alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "deny", reason="once is enough"))
    assert denied.status_code == 302
    assert Approval.objects.get(pk=approval.pk).state == "denied"
    assert office.refund.count == 1


def test_one_that_waited_before_its_equal_became_uncertain_is_held_as_well(office: Office, alice: Client) -> None:
    approval = office.approval(office.ask())
    assert "Held" not in page_of(alice, approval)
    office.unknown()
    assert "Held: an equal action is uncertain" in page_of(alice, approval)
    assert "disabled" in button(page_of(alice, approval), "Approve and refund order 1042")


@pytest.mark.parametrize(
    "state, said", [("completed", "Done, not verified"), ("rejected", "Not done")], ids=["happened", "did not happen"]
)
def test_once_the_first_is_settled_its_outcome_is_shown_and_approving_is_possible(
    state: str, said: str, office: Office, alice: Client, first: EffectRecord
) -> None:
    approval = office.approval(office.ask())
    settle(first, state)
    page = page_of(alice, approval)
    equal = page.split('id="equal-title"')[1].split("</section>")[0]
    assert "An equal action held this; it is settled" in equal
    assert said in equal
    assert f'href="/effects/{first.id}/"' in equal
    assert "disabled" not in button(page, "Approve and refund order 1042")
    alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    office.run(approval.session)
    assert office.refund.count == 2


def test_the_approver_is_told_of_one_that_was_given_up(office: Office, alice: Client, first: EffectRecord) -> None:
    held = office.approval(office.ask())
    EffectRecord.objects.filter(pk=first.pk).update(abandoned_at=clock.now())
    asked_after = office.approval(office.ask())
    for approval in (held, asked_after):
        page = page_of(alice, approval)
        assert "An equal action was given up" in page
        assert "It may have. Approving this one may do it twice." in page
        assert f'href="/effects/{first.id}/"' in page
        assert "disabled" not in button(page, "Approve and refund order 1042")


def test_other_arguments_other_tenants_and_idempotent_actions_are_not_held(
    office: Office, alice: Client, first: EffectRecord
) -> None:
    other = office.approval(office.ask(("refund", {"order": "7"})))
    south = office.approval(office.ask(by=office.carol, tenant=office.south))
    idempotent = office.approval(office.ask(("label", {"order": "1042"})))
    for client, approval in ((alice, other), (office.client(office.carol), south), (alice, idempotent)):
        assert "equal-title" not in page_of(client, approval)
    assert alice.get("/").context["held"] == set()


def test_the_queue_says_held_only_as_long_as_it_is(office: Office, alice: Client, first: EffectRecord) -> None:
    held, free = office.approval(office.ask()), office.approval(office.ask(("refund", {"order": "7"})))
    page = text(alice.get("/"))
    for approval, said in ((held, True), (free, False)):
        row = page.split(f'id="r-{approval.id}"')[1].split("</li>")[0]
        assert ("Held</span>" in row) is said
    settle(first, "rejected")
    assert "Held</span>" not in text(alice.get("/"))
