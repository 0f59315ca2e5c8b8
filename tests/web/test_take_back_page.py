"""An approval taken back before its dispatch, on the page (UX 14)."""

from typing import Any

import pytest
from django.test import Client

from cayu_runtime.contracts import Actor
from cayu_runtime.models import Approval, Decision, Session
from cayu_runtime.services.pause import pause_dispatch
from tests.web.office import Office


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


@pytest.fixture
def approval(office: Office, alice: Client) -> Approval:
    """One that alice approved and nobody dispatched."""
    found = office.approval(office.ask())
    assert alice.post(f"/approvals/{found.id}/decide/", office.form(found, "approve")).status_code == 302
    return found


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def take_back(client: Client, office: Office, approval: Approval, **changed: Any) -> Any:
    form = office.form(approval, "", reason="wrong order", **{k: v for k, v in changed.items() if k != "reason"})
    return client.post(f"/approvals/{approval.id}/revoke/", {**form, **changed})


def state(approval: Approval) -> str:
    return Approval.objects.get(pk=approval.pk).state


def test_the_toast_after_an_approval_leads_to_taking_it_back(office: Office, alice: Client) -> None:
    found = office.approval(office.ask())
    answer = alice.post(f"/approvals/{found.id}/decide/", office.form(found, "approve"))
    assert f'<a href="/approvals/{found.id}/">take it back</a>' in text(alice.get(answer["Location"]))


def test_taken_back_nothing_is_sent_and_page_and_session_say_who_and_why(
    office: Office, alice: Client, approval: Approval
) -> None:
    erin = office.client(office.erin)
    assert "Take back, send nothing</button>" in text(erin.get(f"/approvals/{approval.id}/"))
    answer = take_back(erin, office, approval)
    assert answer["Location"] == f"/approvals/{approval.id}/"
    page = text(erin.get(answer["Location"]))
    assert "Taken back. Nothing was sent." in page
    assert "Approved by alice, then taken back before it was dispatched." in page
    assert "Taken back by erin" in page
    assert "Reason: “wrong order”" in page
    assert "Take back, send nothing" not in page
    session = office.run(approval.session)
    assert (session.state, office.refund.count, state(approval)) == ("completed", 0, "revoked")
    page = text(alice.get(f"/sessions/{session.session_id}/"))
    assert "Approval taken back, nothing was sent" in page
    assert "taken back by erin. Reason: wrong order" in page
    assert "Denied by alice" not in page


def test_it_needs_a_reason(office: Office, alice: Client, approval: Approval) -> None:  # UX 17
    answer = take_back(alice, office, approval, reason="  ")
    assert answer.status_code == 400
    assert "Nothing was taken back" in text(answer)
    assert "taking an approval back needs a reason" in text(answer)
    assert state(approval) == "approved"


def test_too_late_is_said_plainly_and_the_reason_given_back(
    office: Office, alice: Client, approval: Approval
) -> None:  # UX 14
    office.run(approval.session)
    assert "It was dispatched, so it can no longer be taken back." in text(alice.get(f"/approvals/{approval.id}/"))
    answer = take_back(alice, office, approval, reason="my own words")
    assert answer.status_code == 409
    assert "Nothing was taken back" in text(answer)
    assert "Too late: it was dispatched. What has begun can&#x27;t be taken back." in text(answer)
    assert "my own words" in text(answer)
    assert (state(approval), office.refund.count) == ("consumed", 1)


def test_what_nobody_approved_is_not_taken_back(office: Office, alice: Client) -> None:
    waiting = office.approval(office.ask())
    answer = take_back(alice, office, waiting)
    assert answer.status_code == 409
    assert "Deny it instead." in text(answer)
    assert state(waiting) == "pending"


@pytest.mark.parametrize("changed", [{"version": 2}, {"digest": "ab" * 32}])
def test_a_stale_page_takes_nothing_back(
    changed: dict[str, Any], office: Office, alice: Client, approval: Approval
) -> None:
    answer = take_back(alice, office, approval, **changed)
    assert answer.status_code == 409
    assert "changed since this page was read" in text(answer)
    assert ">wrong order</textarea>" in text(answer)
    assert state(approval) == "approved"


@pytest.mark.parametrize("changed", [{"version": ""}, {"version": "x"}, {"digest": "xyz"}])
def test_a_form_that_is_not_the_pages_is_refused_in_words(
    changed: dict[str, Any], office: Office, alice: Client, approval: Approval
) -> None:
    answer = take_back(alice, office, approval, **changed)
    assert answer.status_code == 400
    assert "Nothing was taken back" in text(answer)
    assert state(approval) == "approved"


def test_who_may_not_decide_may_not_take_back_and_is_told_why(office: Office, approval: Approval) -> None:
    vic = office.client(office.person("vic", office.north, "viewer"))
    page = text(vic.get(f"/approvals/{approval.id}/"))
    assert "disabled" in page.split("Take back, send nothing")[0].rsplit("<button", 1)[1]
    assert "Deciding needs the role approver" in page
    answer = take_back(vic, office, approval)
    assert answer.status_code == 403
    assert "wrong order" in text(answer)
    assert state(approval) == "approved"
    assert not Decision.objects.filter(verdict="revoke").exists()


def test_while_dispatch_is_paused_it_can_be_taken_back(office: Office, alice: Client, approval: Approval) -> None:
    pause_dispatch(Actor("shell:op", "op", None, "shell"), reason="a test")
    office.run(approval.session)
    assert Session.objects.get(pk=approval.session_id).state == "pending"
    assert take_back(alice, office, approval).status_code == 302
    assert (state(approval), office.refund.count) == ("revoked", 0)
