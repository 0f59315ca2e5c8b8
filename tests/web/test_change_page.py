"""Arguments changed before approving, on the page (issue 4): where the policy allows it, judged again, shown."""

import html
import json
import re
from typing import Any

import pytest
from django.test import Client

from cayu_review.services.membership import Limits, grant_role
from cayu_runtime import ToolEffect, ToolSpec
from cayu_runtime.models import Approval, Event
from tests.web.office import Deed, Office

ASKED = {"order": "1042", "amount": 500}
SCHEMA = {
    "type": "object",
    "properties": {"order": {"type": "string", "maxLength": 20}, "amount": {"type": "integer", "maximum": 1000}},
    "required": ["order", "amount"],
    "additionalProperties": False,
}


@pytest.fixture
def office(office: Office) -> Office:
    external, idempotent = ToolEffect.EXTERNAL, ToolEffect.IDEMPOTENT
    office.refund = Deed(ToolSpec("refund", "", SCHEMA, external, verb="Refund order", target="order"))
    office.label = Deed(ToolSpec("label", "", SCHEMA, idempotent, verb="Label order", target="order"))
    return office


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


@pytest.fixture
def approval(office: Office) -> Approval:
    return office.approval(office.ask(("refund", ASKED), editable=True, four_eyes=False))


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def offered(answer: Any) -> str:
    """What stands in the field for the arguments."""
    found = re.search(r'<textarea id="new-arguments"[^>]*>\n(.*?)</textarea>', answer.content.decode(), re.DOTALL)
    assert found, "no field for the arguments"
    return html.unescape(found[1])


def send(client: Client, office: Office, approval: Approval, where: str, arguments: Any, **changed: Any) -> Any:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    form = office.form(approval, "change", arguments=written, **changed)
    return client.post(f"/approvals/{approval.id}/{where}/", form)


def state(approval: Approval) -> tuple[str, int]:
    return Approval.objects.values_list("state", "version").get(pk=approval.pk)


def test_the_arguments_are_offered_as_text_that_hides_nothing(office: Office, alice: Client) -> None:
    asked = {"order": "10\u202e42 Zürich \u200b\U000e0001", "amount": 500}
    approval = office.approval(office.ask(("refund", asked), editable=True))
    field = offered(alice.get(f"/approvals/{approval.id}/"))
    assert json.loads(field) == asked
    assert "Zürich" in field
    assert r"\u202e42" in field
    assert r"\u200b\udb40\udc01" in field
    assert not set("\u202e\u200b\U000e0001") & set(field)


@pytest.mark.parametrize("who", ["bob", "vic"])
def test_who_may_not_decide_is_offered_no_change(who: str, office: Office, approval: Approval) -> None:
    user = office.bob if who == "bob" else office.person("vic", office.north, "viewer")
    assert "Change before approving" not in text(office.client(user).get(f"/approvals/{approval.id}/"))


def test_where_the_policy_says_nothing_none_is_offered_or_taken(office: Office, alice: Client) -> None:
    approval = office.approval(office.ask(("refund", ASKED)))
    assert "Change before approving" not in text(alice.get(f"/approvals/{approval.id}/"))
    answer = send(alice, office, approval, "decide", {**ASKED, "amount": 50})
    assert answer.status_code == 400
    assert "allows no change of these arguments" in text(answer)
    assert "&quot;amount&quot;: 50" in text(answer), "what was written is given back"
    assert state(approval) == ("pending", 1)


def test_an_external_change_is_asked_about_with_its_new_target_and_what_was_changed(
    office: Office, alice: Client, approval: Approval
) -> None:  # UX 5
    answer = send(alice, office, approval, "confirm", {"order": "1043", "amount": 50}, reason="wrong order")
    assert answer.status_code == 200
    page = text(answer)
    assert "<strong>Refund order 1043?</strong> Once it is dispatched it cannot be undone." in page
    changed = re.sub(r"<[^>]+>", "", page.split("<p>Changed by you:")[1].split("</p>")[0])
    assert " ".join(changed.split()) == 'order &quot;1042&quot; → &quot;1043&quot;, amount 500 → 50.'
    assert "Yes, refund order 1043" in page
    assert "Approve and refund order 1042" not in page
    assert "new-arguments" not in page, "what is asked about can't be changed under the question"
    assert ">wrong order</textarea>" in page
    assert state(approval) == ("pending", 1)
    kept = html.unescape(re.findall(r'name="arguments" value="([^"]*)"', page)[0])
    assert send(alice, office, approval, "decide", kept, reason="wrong order").status_code == 302
    office.run(approval.session)
    assert state(approval) == ("consumed", 2)
    assert Approval.objects.get(pk=approval.pk).call.arguments == {"order": "1043", "amount": 50}
    assert office.refund.count == 1


def test_cancel_leads_back_to_what_was_written(office: Office, alice: Client, approval: Approval) -> None:
    written = '{"order": "1042",\r\n "amount": 50}'
    answer = send(alice, office, approval, "confirm", written, reason="half", back="1")
    assert offered(answer) == written.replace("\r\n", "\n")
    assert ">half</textarea>" in text(answer)
    assert "<details class=\"change\" id=\"change\" open>" in text(answer)


def test_an_idempotent_change_is_recorded_at_once(office: Office, alice: Client) -> None:  # UX 5
    approval = office.approval(office.ask(("label", ASKED), editable=True))
    page = text(alice.get(f"/approvals/{approval.id}/"))
    assert "Approve with these changes</button>" in page
    answer = send(alice, office, approval, "decide", {**ASKED, "amount": 50})
    assert "Approved as you changed it. Not dispatched yet." in text(alice.get(answer["Location"]))
    office.run(approval.session)
    assert (office.label.count, state(approval)) == (1, ("consumed", 2))


DEEP = '{"order": ' + "[" * 70 + "]" * 70 + ', "amount": 1}'


@pytest.mark.parametrize("where", ["confirm", "decide"])
@pytest.mark.parametrize(
    "written, says",
    [
        ("{order: 1}", "This is not JSON"),
        ("", "There are no arguments"),
        ("[1]", "must be one JSON object"),
        ('{"order": "1", "amount": "50"}', "is not of type"),
        ('{"order": "1", "amount": 1001}', "1001"),
        ('{"order": "1", "amount": 5, "amount": 6}', "stands twice"),
        ('{"order": "1", "amount": 9007199254740993}', "Send it as a string"),
        ('{"order": "1", "amount": NaN}', "not a JSON number"),
        (DEEP, "nested deeper than 64"),
        ('{"order": "' + "x" * 1_100_000 + '", "amount": 5}', "at most 1048576 are accepted"),
    ],
    ids=["no JSON", "empty", "list", "type", "maximum", "twice", "large number", "NaN", "deep", "large"],
)
def test_a_bad_change_is_answered_on_the_page_and_kept(
    where: str, written: str, says: str, office: Office, alice: Client, approval: Approval
) -> None:
    answer = send(alice, office, approval, where, written, reason="my own words")
    assert answer.status_code == 400
    said = text(answer).split('<p id="problem">')[1].split("</p>")[0]
    assert says in html.unescape(said)
    assert len(said) < 3000
    assert offered(answer) == written or not written
    assert ">my own words</textarea>" in text(answer)
    assert state(approval) == ("pending", 1)
    assert not Event.objects.filter(type="tool.call.edited").exists()


def test_a_change_that_changes_nothing_is_said_to_be_none(office: Office, alice: Client, approval: Approval) -> None:
    answer = send(alice, office, approval, "confirm", '{"amount": 500, "order": "1042"}')
    assert answer.status_code == 400
    assert "These are the arguments that were asked for." in text(answer)


@pytest.mark.parametrize("where", ["confirm", "decide"])
def test_the_button_for_what_was_asked_never_drops_a_change(
    where: str, office: Office, alice: Client, approval: Approval
) -> None:
    """Without JavaScript both buttons stand there; a person who wrote 50 must not approve 500."""
    form = office.form(approval, "approve", arguments='{"order": "1042", "amount": 50}')
    answer = alice.post(f"/approvals/{approval.id}/{where}/", form)
    assert answer.status_code == 400
    assert "this button approves them as they were asked for" in text(answer)
    assert offered(answer) == '{"order": "1042", "amount": 50}'
    assert state(approval) == ("pending", 1)


def test_the_form_as_it_stands_approves_what_was_asked(office: Office, alice: Client, approval: Approval) -> None:
    untouched = offered(alice.get(f"/approvals/{approval.id}/")).replace("\n", "\r\n")  # as browsers send it
    form = office.form(approval, "approve", arguments=untouched)
    assert alice.post(f"/approvals/{approval.id}/confirm/", form).status_code == 200
    assert alice.post(f"/approvals/{approval.id}/decide/", form).status_code == 302
    assert state(approval) == ("approved", 1)


def test_a_denial_takes_no_notice_of_the_field(office: Office, alice: Client, approval: Approval) -> None:
    form = office.form(approval, "deny", arguments="{half", reason="no")
    assert alice.post(f"/approvals/{approval.id}/decide/", form).status_code == 302
    assert state(approval) == ("denied", 1)


@pytest.mark.parametrize("where", ["confirm", "decide"])
def test_a_change_of_what_somebody_else_decided_meanwhile_is_given_back(
    where: str, office: Office, alice: Client, approval: Approval
) -> None:
    erin = office.client(office.erin)
    erin.post(f"/approvals/{approval.id}/decide/", office.form(approval, "deny", reason="I was first"))
    answer = send(alice, office, approval, where, {**ASKED, "amount": 51})
    assert answer.status_code == 409
    assert "Denied by erin" in text(answer)
    assert "&quot;amount&quot;: 51" in text(answer)
    assert office.refund.count == 0


def test_own_requests_are_not_changed_either(office: Office, alice: Client) -> None:  # A22
    own = office.approval(office.ask(("refund", ASKED), by=office.alice, editable=True))
    for where in ("confirm", "decide"):
        answer = send(alice, office, own, where, {**ASKED, "amount": 50})
        assert answer.status_code == 403
        assert "You asked for this yourself" in text(answer)
    assert state(own) == ("pending", 1)


def test_both_versions_stay_to_be_read_and_who_changed_them(office: Office, alice: Client, approval: Approval) -> None:
    send(alice, office, approval, "decide", {**ASKED, "amount": 50})
    for _ in range(2):
        page = text(alice.get(f"/approvals/{approval.id}/"))
        versions = page.split('id="versions-title"')[1].split("</section>")[0]
        assert "alice changed what the agent had asked for" in versions
        row = re.sub(r"<[^>]+>", " ", versions.split('<tr class="changed">')[1].split("</tr>")[0]).split()
        assert row == ["amount", "500", "50", "changed"]
        session = text(alice.get(f"/sessions/{approval.session.session_id}/"))
        assert "Changed by alice before it was approved" in session
        row = re.sub(r"<[^>]+>", " ", session.split('<tr class="changed">')[1].split("</tr>")[0]).split()
        assert row == ["amount", "500", "50", "changed"]
        assert "Arguments of refund changed by alice before approving" in session
        office.run(approval.session)


def test_a_role_that_is_limited_to_targets_changes_nothing_to_another_one(office: Office) -> None:
    limited = office.person("lena", office.north)
    grant_role(limited, office.north, "approver", limits=Limits(targets=("1042",)))
    approval = office.approval(office.ask(("refund", ASKED), editable=True, four_eyes=False))
    away = {"decision": "approve", "version": 1, "digest": approval.intent_digest.hex()}
    client, where = office.client(limited), f"/api/v1/approvals/{approval.pk}/decide/"
    answer = client.post(where, {**away, "arguments": {**ASKED, "order": "7"}}, content_type="application/json")
    assert (answer.status_code, state(approval)) == (403, ("pending", 1))
    answer = client.post(where, {**away, "arguments": {**ASKED, "amount": 50}}, content_type="application/json")
    assert (answer.status_code, state(approval)) == (200, ("approved", 2))
