"""Several requests chosen in the queue, read on one page and decided with one reason (UX 19; CASES A22, A23)."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from cayu_runtime.models import Approval, Decision
from tests.web.office import Office

ADDRESS = "/approvals/together/"


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


def labels(office: Office, count: int, **options: Any) -> list[Approval]:
    return [
        office.approval(office.ask(("label", {"order": f"o{n}"}), expires_in=1000 + n, **options)) for n in range(count)
    ]


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def chosen(client: Client, *approvals: Approval) -> Any:
    return client.get(ADDRESS, {"item": [str(approval.id) for approval in approvals]})


def items_of(page: Any) -> list[str]:
    """The items that the page's own form would send."""
    return re.findall(r'name="item" value="([^"]+)"', page.content.decode())


def post(client: Client, items: list[str], decision: str, reason: str = "") -> Any:
    return client.post(ADDRESS, {"item": items, "decision": decision, "reason": reason})


def lines(answer: Any) -> list[str]:
    """The answers, one line of words each."""
    found = text(answer).split('<ol class="answers">')[1].split("</ol>")[0].split("<li>")[1:]
    return [" ".join(re.sub(r"<[^>]+>", " ", line).split()) for line in found]


def states(approvals: list[Approval]) -> list[str]:
    return [Approval.objects.get(pk=approval.pk).state for approval in approvals]


def test_idempotent_rows_of_the_queue_can_be_chosen_and_no_others(office: Office, alice: Client) -> None:
    two, refund = labels(office, 2), office.approval(office.ask())
    own = labels(office, 1, by=office.alice, four_eyes=True)[0]
    page = text(alice.get("/"))
    boxes = set(re.findall(r'type="checkbox" name="item" value="([^"]+)"', page))
    assert boxes == {str(approval.id) for approval in two}
    assert str(refund.id) in page
    assert str(own.id) in page
    assert "Choose: Label order o1" in page
    assert f'<form method="get" action="{ADDRESS}">' in page


@pytest.mark.parametrize("who", ["bob", "alice"])
def test_where_nothing_can_be_chosen_there_are_no_boxes(who: str, office: Office) -> None:
    labels(office, 2 if who == "bob" else 1)  # bob is no approver; one alone is opened
    assert 'name="item"' not in text(office.client(getattr(office, who)).get("/"))


def test_the_page_shows_every_argument_before_one_decides(office: Office, alice: Client) -> None:  # UX 4, 6
    two = labels(office, 2)
    page = chosen(alice, *two)
    for fact in ("Label order: 2 to decide together", "&quot;o0&quot;", "&quot;o1&quot;", "Approve 2: Label order"):
        assert fact in text(page)
    sent = [f"{a.id}~{a.version}~{a.intent_digest.hex()}" for a in two]
    assert items_of(page) == sent
    assert states(two) == ["pending"] * 2


def test_what_can_not_be_in_the_set_is_named_with_its_reason(office: Office, alice: Client) -> None:
    two, refund = labels(office, 2), office.approval(office.ask())
    own = labels(office, 1, by=office.alice, four_eyes=True)[0]
    decided = labels(office, 1)[0]
    office.client(office.erin).post(f"/approvals/{decided.id}/decide/", office.form(decided, "approve"))
    page = chosen(alice, refund, *two, own, decided)
    assert [item.partition("~")[0] for item in items_of(page)] == [str(a.id) for a in two]
    outside = text(page).split('id="outside-title"')[1].split("</section>")[0]
    assert "Only idempotent effects are decided together." in outside
    assert "You asked for this yourself" in outside
    assert "Approved by erin. Not dispatched yet." in outside


@pytest.mark.parametrize("query", ["", "?item=", "?item=nonsense&item=\0", "?item=" + "0" * 5000])
def test_a_page_without_a_set_says_so(query: str, alice: Client) -> None:
    answer = alice.get(ADDRESS + query)
    assert answer.status_code == 200
    assert "Nothing to decide together" in text(answer)
    assert "<form" not in text(answer).split("<main")[1].split("</main>")[0]


def test_another_tenants_requests_are_not_there(office: Office) -> None:  # D1
    two = labels(office, 2)
    carol = office.client(office.carol)
    page = chosen(carol, *two)
    assert "Label order" not in text(page)
    assert items_of(page) == []
    answer = post(carol, [f"{a.id}~1~{a.intent_digest.hex()}" for a in two], "approve")
    assert [line.split(" ", 1)[1] for line in lines(answer)] == ["Not found There is no such approval."] * 2
    assert "Label order" not in text(answer)
    assert states(two) == ["pending"] * 2


def test_ten_at_once_five_are_done_and_five_are_answered_each(office: Office, alice: Client) -> None:  # A23
    ten = labels(office, 10)
    items = items_of(chosen(alice, *ten))
    erin = office.client(office.erin)
    for approval in ten[:3]:
        erin.post(f"/approvals/{approval.id}/decide/", office.form(approval, "deny", reason="not now"))
    Approval.objects.filter(pk=ten[3].pk).update(
        created_at=ten[3].created_at - timedelta(days=2), expires_at=ten[3].created_at - timedelta(days=1)
    )
    Approval.objects.filter(pk=ten[4].pk).update(version=2)
    answer = post(alice, items, "approve", "all alike")
    assert answer.status_code == 200
    assert "<h1>5 approved, 5 left alone</h1>" in text(answer)
    found = lines(answer)
    for line in found[:3]:
        assert "Decided by somebody else Already denied by erin at" in line
    assert "Label order o3 Expired The time to decide ended at" in found[3]
    assert "Label order o4 Changed The request changed since" in found[4]
    assert found[5:] == [f"Label order o{n} Approved" for n in range(5, 10)]
    assert "What was approved is not dispatched yet." in text(answer)
    assert "all alike" in text(answer), "the words are kept for what was left alone"
    assert states(ten) == ["denied"] * 3 + ["expired", "pending"] + ["approved"] * 5
    assert {d.reason for d in Decision.objects.filter(verdict="approve")} == {"all alike"}


def test_sent_twice_it_is_answered_twice_and_recorded_once(office: Office, alice: Client) -> None:
    items = items_of(chosen(alice, *labels(office, 2)))
    for _ in range(2):
        answer = post(alice, items, "approve")
        assert "<h1>2 approved, 0 left alone</h1>" in text(answer)
    assert "You had decided it so before" in text(answer)
    assert Decision.objects.count() == 2


def test_a_denial_of_many_needs_a_reason_and_keeps_the_set(office: Office, alice: Client) -> None:  # UX 17
    two = labels(office, 2)
    items = items_of(chosen(alice, *two))
    answer = post(alice, items, "deny", " ")
    assert answer.status_code == 400
    assert "a denial needs a reason" in text(answer)
    assert items_of(answer) == items
    answer = post(alice, items, "deny", "not these")
    assert "<h1>2 denied, 0 left alone</h1>" in text(answer)
    assert "Of what was denied, nothing was sent." in text(answer)
    assert states(two) == ["denied"] * 2


@pytest.mark.parametrize("broken", ["", "x", "{id}", "{id}~", "{id}~x~", "nonsense~1~ab", "{id}~" + "9" * 40 + "~ab"])
def test_a_form_that_is_not_the_pages_is_refused_in_words(broken: str, office: Office, alice: Client) -> None:
    one = labels(office, 1)[0]
    answer = post(alice, [broken.replace("{id}", str(one.id))], "approve", "my own words")
    assert answer.status_code == 400
    assert "Nothing was decided" in text(answer)
    assert "my own words" in text(answer)
    assert states([one]) == ["pending"]


def test_own_requests_and_external_ones_stay_out_however_they_are_sent(office: Office, alice: Client) -> None:  # A22
    own = office.approval(office.ask(by=office.alice))
    other = office.approval(office.ask())
    one = labels(office, 1)[0]
    answer = post(alice, [f"{a.id}~1~{a.intent_digest.hex()}" for a in (own, other, one)], "approve")
    found = lines(answer)
    assert "Your own request You asked for this yourself" in found[0]
    assert "To be decided for itself Only idempotent effects" in found[1]
    assert found[2] == "Label order o0 Approved"
    assert states([own, other, one]) == ["pending", "pending", "approved"]
