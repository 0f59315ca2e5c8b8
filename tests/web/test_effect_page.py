"""One effect, to be read: what is known, what was tried, and that only evidence settles it."""

from typing import Any

import pytest
from django.test import Client

from cayu_runtime.contracts import Actor
from cayu_runtime.services.quarantine import start_quarantine, take_sessions
from tests.web.office import Office


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


def main_of(answer: Any) -> str:
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split("<main")[1].split("</main>")[0].split())


def test_an_unknown_outcome_is_explained(office: Office, alice: Client) -> None:
    effect = office.unknown()
    page = main_of(alice.get(f"/effects/{effect.id}/"))
    assert "Nobody knows whether this happened." in page
    assert "It will not be sent again." in page
    assert "evidence" in page
    assert "This tool has no way to look it up." in page
    assert "Look up now" not in page
    assert "Dispatched</dt><dd>1 time</dd>" in page
    assert str(effect.id) in page
    assert effect.operation_id in page


def test_attempts_stand_in_order_with_their_evidence(office: Office, alice: Client) -> None:
    effect = office.unknown()
    page = main_of(alice.get(f"/effects/{effect.id}/"))
    order = [
        "Recorded, before anything was sent",
        str(effect.dispatch_id),
        "ConnectionError",
        "Outcome unknown since then",
    ]
    timeline = page.split("timeline-title")[-1]
    places = [timeline.index(part) for part in order]
    assert places == sorted(places)
    assert "the connection broke" in page


def test_the_key_for_the_receiving_system_never_leaves(office: Office, alice: Client) -> None:
    effect = office.unknown()
    for address in (f"/effects/{effect.id}/", f"/sessions/{effect.session.session_id}/"):
        assert effect.idempotency_key not in alice.get(address).content.decode()


def test_a_known_outcome_shows_its_receipt(office: Office, alice: Client) -> None:
    session = office.ask()
    approval = office.approval(session)
    alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    office.run(session)
    effect = office.effect(session)
    page = main_of(alice.get(f"/effects/{effect.id}/"))
    assert "Done, not verified" in page
    assert "Receipt</h2>" in page
    assert effect.receipt["digest"] in page
    assert "Nobody knows" not in page


def test_what_was_never_sent_says_so(office: Office, alice: Client) -> None:
    session = office.ask()
    approval = office.approval(session)
    assert "Dispatched</dt><dd>never</dd>" in main_of(alice.get(f"/effects/{office.effect(session).id}/"))
    alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "deny", reason="no"))
    assert "Given up, never dispatched" in main_of(alice.get(f"/effects/{office.effect(session).id}/"))


def test_what_waits_for_a_decision_leads_to_it(office: Office, alice: Client) -> None:
    session = office.ask()
    approval, effect = office.approval(session), office.effect(session)
    link = f'It waits for a decision: <a href="/approvals/{approval.id}/">Refund order 1042</a>'
    assert f"Nothing was sent. {link}" in main_of(alice.get(f"/effects/{effect.id}/"))
    alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "deny", reason="no"))
    assert "It waits for a decision" not in main_of(alice.get(f"/effects/{effect.id}/"))


def test_what_a_restored_backup_left_open_claims_no_dispatch(office: Office, alice: Client) -> None:
    session = office.ask()
    operator = Actor("shell:ops", "ops", None, "shell")
    made = start_quarantine(operator, reason="the disk was lost", tenant=office.north)
    assert take_sessions(operator, made).whole
    page = main_of(alice.get(f"/effects/{office.effect(session).id}/"))
    assert "The database was restored from a backup, so what was sent since that backup is missing here." in page
    assert "It will not be sent before that is known." in page
    assert "Dispatched</dt><dd>never, as far as the backup tells</dd>" in page
    assert "It was dispatched" not in page
    assert "Nobody knows whether these happened" in main_of(alice.get("/reconcile/"))
