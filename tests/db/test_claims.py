"""Who is looking at a waiting approval: a hint to colleagues that ends by itself and grants nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from cayu_review.models import Claim
from cayu_review.selectors.claim import claim_on, claims_on, looked_at_by_others
from cayu_review.services.claim import MINUTES, claim_approval, release_claim
from cayu_review.services.membership import Limits, grant_role
from cayu_runtime.core import clock, decisions
from cayu_runtime.errors import ApprovalExpired, Claimed, Conflict, NotFound, NotPermitted
from cayu_runtime.models import Approval, Event
from cayu_runtime.services.approval import decide_approval
from cayu_runtime.worker.sweep import expire_due
from tests import rows
from tests.web.office import Office

TEN = timedelta(minutes=MINUTES)


@pytest.fixture
def office(db: None) -> Office:
    return Office()


@pytest.fixture
def asked(office: Office) -> Approval:
    return office.approval(office.ask())


def claim(office: Office, who: User, approval: Approval) -> Claim:
    return claim_approval(office.north, office.actor(who, office.north), approval.pk)


def release(office: Office, who: User, approval: Approval) -> bool:
    return release_claim(office.north, office.actor(who, office.north), approval.pk)


def run_out(approval: Approval) -> None:
    Claim.objects.filter(approval=approval).update(
        since=clock.now() - 2 * TEN, until=clock.now() - timedelta(milliseconds=1)
    )


def test_a_claim_says_by_whom_and_until_when_and_moves_nothing(office: Office, asked: Approval) -> None:
    before = (asked.state, asked.version, asked.expires_at, Event.objects.count(), asked.session.updated_at)
    made = claim(office, office.alice, asked)
    assert (made.holder, made.holder_name) == (f"user:{office.alice.pk}", "alice")
    assert made.until - made.since == TEN
    assert abs(made.since - clock.now()) < timedelta(seconds=30), "by the database's clock"
    asked.refresh_from_db()
    asked.session.refresh_from_db()
    assert (asked.state, asked.version, asked.expires_at, Event.objects.count(), asked.session.updated_at) == before
    assert claims_on(office.north, [asked.pk]) == {asked.pk: made}
    assert claims_on(office.south, [asked.pk]) == {}


def test_it_is_held_against_everybody_until_it_runs_out(office: Office, asked: Approval) -> None:
    claim(office, office.alice, asked)
    with pytest.raises(Claimed, match="alice is looking at this until") as refused:
        claim(office, office.erin, asked)
    assert refused.value.details["claim"]["by"] == "alice"
    assert datetime.fromisoformat(refused.value.details["claim"]["until"]).tzinfo is not None
    run_out(asked)
    assert claim_on(asked) is None
    assert claim(office, office.erin, asked).holder_name == "erin"
    assert Claim.objects.count() == 1
    with pytest.raises(Claimed):
        claim(office, office.alice, asked)


def test_who_holds_it_begins_their_time_anew(office: Office, asked: Approval) -> None:
    first = claim(office, office.alice, asked)
    Claim.objects.update(since=first.since - TEN / 2, until=first.until - TEN / 2)
    again = claim(office, office.alice, asked)
    assert again.until >= first.until
    assert again.until - again.since == TEN


def test_it_is_given_back_by_its_holder_alone(office: Office, asked: Approval) -> None:
    claim(office, office.alice, asked)
    assert not release(office, office.erin, asked)
    assert claim_on(asked) is not None
    assert release(office, office.alice, asked)
    assert claim_on(asked) is None
    assert not release(office, office.alice, asked), "there is nothing to give back; that is no fault"
    assert claim(office, office.erin, asked).holder_name == "erin"


def test_others_still_decide_and_that_ends_it(office: Office, asked: Approval) -> None:
    claim(office, office.alice, asked)
    decide(office, office.erin, asked, "approve")
    asked.refresh_from_db()
    assert (asked.state, claim_on(asked)) == ("approved", None)
    assert looked_at_by_others(office.north, "user:0") == []
    with pytest.raises(Conflict, match="This request is approved"):
        claim(office, office.alice, asked)


def decide(office: Office, who: User, approval: Approval, verdict: str) -> Any:
    return decide_approval(
        office.north, office.actor(who, office.north), approval.pk, verdict=verdict, version=approval.version,
        digest=approval.intent_digest.hex(), reason="seen",
    )  # fmt: skip


def test_the_holders_own_decision_ends_it_though_others_have_yet_to_decide(office: Office, asked: Approval) -> None:
    """Where several must agree, one decision leaves the request waiting."""
    made = claim(office, office.alice, asked)
    rows.decision(approval=asked, tenant=office.north, actor=made.holder, decided_at=made.since + timedelta(seconds=1))
    assert (claim_on(asked), looked_at_by_others(office.north, "user:0")) == (None, [])
    with pytest.raises(Conflict, match="You have agreed to this already"):
        claim(office, office.alice, asked)
    assert claim(office, office.erin, asked).holder_name == "erin"


def test_who_may_not_decide_may_not_claim(office: Office) -> None:
    own = office.approval(office.ask(by=office.alice))
    with pytest.raises(NotPermitted) as refused:
        claim(office, office.alice, own)  # four eyes
    assert refused.value.code == "own_request"
    grant_role(office.person("fay", office.north), office.north, "approver", limits=Limits(tools=("label",)))
    for name in ("bob", "fay", "dave"):
        for deed in (claim, release):
            with pytest.raises(NotPermitted):
                deed(office, User.objects.get(username=name), own)
    assert not Claim.objects.exists()


def test_another_tenants_approval_is_not_there(office: Office, asked: Approval) -> None:
    carol = office.actor(office.carol, office.south)
    for deed in (claim_approval, release_claim):
        with pytest.raises(NotFound):
            deed(office.south, carol, asked.pk)


def test_it_never_lasts_longer_than_the_request_and_the_time_to_decide_grants_nothing(office: Office) -> None:  # A14
    asked = office.approval(office.ask(expires_in=120))
    made = claim(office, office.alice, asked)
    assert made.until == asked.expires_at
    with clock.shifted(timedelta(minutes=3)):
        expire_due()
    asked.refresh_from_db()
    assert (asked.state, asked.expires_at, asked.decided_by) == ("expired", made.until, None)
    office.run(asked.session)
    assert office.refund.count == 0
    with pytest.raises(Conflict, match="This request is expired"):
        claim(office, office.alice, asked)


def test_what_is_over_and_not_yet_swept_is_not_claimed(office: Office, asked: Approval) -> None:
    Approval.objects.update(created_at=asked.created_at - 2 * TEN, expires_at=asked.created_at - TEN)
    with pytest.raises(ApprovalExpired):
        claim(office, office.alice, asked)
    assert decisions.expire(asked.session_id, asked.pk)


def test_the_next_item_is_one_that_nobody_looks_at(office: Office) -> None:
    first, second, third = (office.approval(office.ask(("refund", {"order": f"{n}"}))) for n in range(3))
    for number, approval in enumerate((first, second, third)):
        Approval.objects.filter(pk=approval.pk).update(expires_at=approval.created_at + timedelta(days=1, hours=number))
    claim(office, office.erin, second)
    alice = office.client(office.alice)
    first.refresh_from_db()
    answer = alice.post(f"/approvals/{first.pk}/decide/", office.form(first, "deny", reason="no"))
    assert answer["Location"] == f"/approvals/{third.pk}/"
    answer = alice.post(f"/approvals/{third.pk}/decide/", office.form(third, "deny", reason="no"))
    assert answer["Location"] == f"/approvals/{second.pk}/", "better than to say that nothing waits"


def test_the_database_refuses_a_second_claim_and_one_without_time(office: Office, asked: Approval) -> None:
    made = claim(office, office.alice, asked)
    with pytest.raises(IntegrityError), transaction.atomic():
        Claim.objects.update(until=made.since)
    values = {"tenant": office.north, "holder": "user:0", "holder_name": "x", "since": made.since, "until": made.until}
    with pytest.raises(IntegrityError), transaction.atomic():
        Claim.objects.create(approval=asked, **values)
