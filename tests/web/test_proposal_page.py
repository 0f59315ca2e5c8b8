"""A proposal beside the call on the approval page: key by key, and no approval of what differs (UX 7)."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from cayu_review.compare import pairs
from cayu_runtime.models import Approval, Proposal, Session
from cayu_runtime.services.session import start_session
from tests.reviewing import FIELDS, VERIFY, Operator, act, propose
from tests.web.office import Office
from tests.web.test_approval_page import button, page_of

pytestmark = pytest.mark.django_db(transaction=True)  # the recording tool writes from its own thread


@pytest.fixture
def office(transactional_db: None) -> Office:
    return Office()


def asked(office: Office, operator: Operator) -> tuple[Client, Session, Approval]:
    asker = office.actor(office.bob, office.north)
    session = start_session(office.north, asker, agent=operator.agent.name, text="correct the demo")
    office.run(session)
    return office.client(office.alice), session, office.approval(session)


def test_an_equal_call_is_said_to_match_with_the_proposals_digest(office: Office) -> None:
    client, _, approval = asked(office, Operator([propose()], [act()]))
    page = page_of(client, approval)
    digest = Proposal.objects.get().fields_digest.hex()[:12]
    assert f"Matches proposal, digest <code>{digest}…</code>" in page
    assert "Proposal <code>change-0001</code> for <code>apply_change</code>" in page
    for name, value in FIELDS.items():
        line = page.split(f'<code dir="ltr">{name}</code></th><td data-name="Proposed">')[1].split("</tr>")[0]
        assert line.count(f'&quot;{value}&quot;') == 2
        assert "equal" in line
    assert "disabled" not in button(page, "Approve and apply change demo")


def test_a_difference_is_named_and_blocks_approval_on_the_page_and_behind_it(office: Office) -> None:
    client, _, approval = asked(office, Operator([propose()], [act()]))
    Proposal.objects.update(fields={"action_id": "change-0001", "target": "other", "extra": 1})
    page = page_of(client, approval)
    assert "The call differs from its proposal in: extra, reason, target. It cannot be approved." in page
    assert page.count("<strong>differs</strong>") == 3
    assert page.count("<em>absent</em>") == 2
    assert "disabled" in button(page, "Approve and apply change demo")
    assert "disabled" not in button(page, "Deny")
    answer = client.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    assert answer.status_code == 409
    assert b"The call is not what proposal change-0001 says." in answer.content
    answer = client.post(f"/approvals/{approval.id}/decide/", office.form(approval, "deny", reason="not the same"))
    assert answer.status_code == 302


def test_a_proposal_that_ended_blocks_too(office: Office) -> None:
    client, _, approval = asked(office, Operator([propose()], [act()]))
    Proposal.objects.update(state="withdrawn", closed_at=approval.created_at)
    page = page_of(client, approval)
    assert "Its proposal is withdrawn. It cannot be approved." in page
    assert "disabled" in button(page, "Approve and apply change demo")


def test_a_call_without_a_proposal_shows_none(office: Office) -> None:
    approval = office.approval(office.ask())
    assert "Against its proposal" not in page_of(office.client(office.alice), approval)


def test_the_session_page_tells_the_lifecycle_and_a_repeated_outcome(office: Office) -> None:
    client, session, approval = asked(office, Operator([propose()], [act(), VERIFY], [act()]))
    client.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    office.run(session)
    page = " ".join(client.get(f"/sessions/{session.session_id}/").content.decode().split())
    assert "change-0001 put on record for apply_change" in page
    assert "Answered with the recorded outcome; nothing was sent" in page


@pytest.mark.parametrize(
    "fields, arguments, same",
    [
        ({"a": 1}, {"a": 1.0}, [True]),
        ({"a": 1}, {"a": "1"}, [False]),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 3}}, [True, False]),
        ({"a": [1, 2]}, {"a": [1, 2], "b": None}, [True, False]),
    ],
)
def test_lines_are_compared_one_by_one(fields: Any, arguments: Any, same: list[bool]) -> None:
    assert [pair.same for pair in pairs(fields, arguments)] == same
