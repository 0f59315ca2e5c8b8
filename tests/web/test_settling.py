"""The effect page's forms: each says beforehand what it permits, and settles by evidence alone (UX 16, 17)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from cayu_runtime import Finding, Observation
from cayu_runtime.models import EffectRecord
from tests.settling import Adapter
from tests.web.office import Office

BARRED = Observation(Finding.ABSENT, "Not there, and never will be.", barred=True)


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


def unknown(office: Office, *answers: Any) -> EffectRecord:
    office.refund.reconciler = Adapter(*answers)
    return office.unknown()


def form(effect: EffectRecord, **changes: Any) -> dict[str, Any]:
    return {"revision": effect.revision, "dispatch": str(effect.dispatch_id), "reason": "they called", **changes}


def post(client: Client, effect: EffectRecord, what: str, **changes: Any) -> Any:
    return client.post(f"/effects/{effect.pk}/{what}/", form(effect, **changes), follow=True)


def state(effect: EffectRecord) -> str:
    effect.refresh_from_db()
    return effect.state


def test_one_click_looks_it_up_and_the_session_goes_on(office: Office, alice: Client) -> None:
    effect = unknown(office, Finding.CONFIRMED_DONE)
    page = alice.get(f"/effects/{effect.pk}/").content.decode()
    assert "Did it happen?" in page
    assert "nothing is sent again" in page
    answer = post(alice, effect, "look-up").content.decode()
    assert "The receiving system confirms that it was done." in answer
    assert state(effect) == "completed"
    assert "Look up now" not in answer
    assert "by alice," in answer
    assert f"user:{office.alice.pk}" not in answer
    assert office.run(effect.session).state == "completed"
    assert office.refund.count == 1


def test_a_proof_of_absence_asks_for_a_fresh_approval(office: Office, alice: Client) -> None:
    effect = unknown(office, BARRED)
    assert "A person may approve it once more." in post(alice, effect, "look-up").content.decode()
    approval = office.approval(effect.session)
    assert (state(effect), approval.state, approval.version) == ("safe_to_retry", "pending", 2)
    alice.post(f"/approvals/{approval.pk}/decide/", office.form(approval, "approve"))
    assert (office.run(effect.session).state, office.refund.count) == ("completed", 2)


def test_what_proves_nothing_says_so(office: Office, alice: Client) -> None:
    effect = unknown(office, Observation(Finding.NOT_FOUND, "The index lags."))
    answer = post(alice, effect, "look-up").content.decode()
    assert "That proves nothing, so nothing changed." in answer
    assert "The index lags." in answer
    assert state(effect) == "outcome_unknown"


@pytest.mark.parametrize(
    "changes, status, says",
    [
        ({"reason": ""}, 400, "Say why"),
        ({"revision": "1"}, 409, "changed since it was read"),
        ({"revision": "x"}, 400, "without the revision"),
        ({"dispatch": "x"}, 400, "dispatch"),
    ],
    ids=["no reason", "stale", "no revision", "no dispatch"],
)
def test_what_can_not_be_asked_is_said_on_the_page(
    office: Office, alice: Client, changes: dict[str, Any], status: int, says: str
) -> None:
    effect = unknown(office)
    answer = post(alice, effect, "look-up", **changes)
    assert answer.status_code == status
    assert says in answer.content.decode()
    assert state(effect) == "outcome_unknown"


@pytest.mark.parametrize("as_file", [False, True], ids=["pasted", "as a file"])
def test_a_receipt_that_the_adapter_validates_settles_it(office: Office, alice: Client, as_file: bool) -> None:
    effect = unknown(office)
    text = json.dumps({"operation": effect.operation_id, "tool_version": effect.call.tool_version})
    sent = {"file": SimpleUploadedFile("receipt.json", text.encode())} if as_file else {"receipt": text}
    post(alice, effect, "receipt", **sent)
    assert state(effect) == "completed"


@pytest.mark.parametrize(
    "receipt, says",
    [
        ("not JSON", "not JSON"),
        ("[1]", "one JSON object"),
        ('{"a": "' + "x" * 99_000 + '"}', "at most 96 KiB"),
        ("[" * 5000, "nested deeper"),
        ('{"operation": "a", "operation": "b"}', "stands twice"),
        ('{"operation": "other"}', "another operation"),
    ],
    ids=["no JSON", "no object", "too large", "too deep", "a key twice", "of another operation"],
)
def test_what_is_no_receipt_settles_nothing(office: Office, alice: Client, receipt: str, says: str) -> None:
    effect = unknown(office)
    answer = post(alice, effect, "receipt", receipt=receipt)
    assert answer.status_code in (400, 409)
    assert says in answer.content.decode()
    assert state(effect) == "outcome_unknown"


def test_a_refused_receipt_is_given_back_in_its_own_form(office: Office, alice: Client) -> None:
    answer = post(alice, unknown(office), "receipt", receipt='Booked <b>as</b> "R-1"')
    page = answer.content.decode()
    receipts = page.split("It happened: I have the receipt")
    assert receipts[0].rstrip().endswith('<details class="settle" open>\n    <summary>')
    assert "Booked &lt;b&gt;as&lt;/b&gt; &quot;R-1&quot;</textarea>" in receipts[1]
    assert re.findall(r'id="([a-z-]+)" name="reason" value="they called"', page) == ["receipt-reason"]


def test_giving_up_ends_the_session_and_not_the_doubt(office: Office, alice: Client) -> None:
    effect = unknown(office, Finding.CONFIRMED_DONE)
    answer = post(alice, effect, "abandon", reason="")
    assert answer.status_code == 400
    post(alice, effect, "abandon", reason="the customer withdrew")
    effect.session.refresh_from_db()
    assert (state(effect), effect.session.state) == ("outcome_unknown", "failed")
    page = alice.get("/reconcile/").content.decode()
    assert str(effect.pk) in page
    post(alice, effect, "look-up")
    assert state(effect) == "completed"


def test_who_may_not_settle_sees_why_and_can_not(office: Office) -> None:
    effect = unknown(office, Finding.CONFIRMED_DONE)
    bob = office.client(office.bob)
    page = bob.get(f"/effects/{effect.pk}/").content.decode()
    assert "needs the role reconciler or approver" in page
    assert "Look up now" not in page
    assert post(bob, effect, "look-up").status_code == 403
    carol = office.client(office.carol)
    for what in ("look-up", "receipt", "verify", "abandon"):
        assert post(carol, effect, what).status_code == 404
        assert carol.get(f"/effects/{effect.pk}/{what}/").status_code == 404
        assert bob.get(f"/effects/{effect.pk}/{what}/")["Location"] == f"/effects/{effect.pk}/"
    assert state(effect) == "outcome_unknown"
