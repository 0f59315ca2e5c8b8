"""Two people who take one approval to look at, at one moment: one has it, the other is told who."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from cayu_review.models import Claim
from cayu_review.services.claim import claim_approval, release_claim
from cayu_runtime.core import clock
from cayu_runtime.errors import Claimed
from cayu_runtime.models import Approval
from tests.race.rivals import together
from tests.web.office import Office

pytestmark = pytest.mark.postgres


@pytest.fixture
def office(transactional_db: None) -> Office:
    return Office()


def claim(office: Office, who: User, approval: Approval) -> Claim:
    return claim_approval(office.north, office.actor(who, office.north), approval.pk)


@pytest.mark.parametrize("before", ["nobody", "somebody whose time ran out"])
def test_of_twenty_at_one_moment_one_has_it_and_the_others_are_told_who(before: str, office: Office) -> None:
    approval = office.approval(office.ask())
    if before != "nobody":
        claim(office, office.alice, approval)
        Claim.objects.update(since=clock.now() - timedelta(hours=1), until=clock.now() - timedelta(seconds=1))
    people = [office.person(f"person-{n}", office.north, "approver") for n in range(20)]
    outcomes = together(20, lambda n: claim(office, people[n], approval))
    won = [outcome for outcome in outcomes if isinstance(outcome, Claim)]
    lost = [outcome for outcome in outcomes if isinstance(outcome, Claimed)]
    assert (len(won), len(lost)) == (1, 19)
    assert {one.details["claim"]["by"] for one in lost} == {won[0].holder_name}
    assert Claim.objects.get().holder == won[0].holder


def test_the_same_person_from_two_windows_at_one_moment_has_it(office: Office) -> None:
    approval = office.approval(office.ask())
    outcomes = together(2, lambda n: claim(office, office.alice, approval))
    assert [type(outcome) for outcome in outcomes] == [Claim, Claim]
    assert Claim.objects.get().holder_name == "alice"


def test_it_is_given_back_while_somebody_asks_for_it(office: Office) -> None:
    approval = office.approval(office.ask())
    claim(office, office.alice, approval)

    def work(number: int) -> Any:
        if number:
            return release_claim(office.north, office.actor(office.alice, office.north), approval.pk)
        return claim(office, office.erin, approval)

    asked, given_back = together(2, work)
    assert given_back is True
    holders = list(Claim.objects.values_list("holder_name", flat=True))
    assert holders == (["erin"] if isinstance(asked, Claim) else [])
    assert isinstance(asked, Claim | Claimed)
