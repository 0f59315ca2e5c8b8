"""Two people who take one approval to look at, at one moment: one has it, the other is told who."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from cayu_review.models import Claim
from cayu_review.services.claim import claim_approval, release_claim
from cayu_runtime.core import clock
from cayu_runtime.errors import Claimed
from cayu_runtime.models import Approval
from tests.race.rivals import PATIENCE, Rival, together, wait_until_blocked
from tests.web.office import Office

pytestmark = pytest.mark.postgres


@pytest.fixture
def office(transactional_db: None) -> Office:
    return Office()


def claim(office: Office, who: User, approval: Approval) -> Claim:
    return claim_approval(office.north, office.actor(who, office.north), approval.pk)


def race(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """Run both; `first` has done everything and not committed when `second` begins and is seen to wait for it."""
    done, go = threading.Event(), threading.Event()

    def held() -> Any:
        with transaction.atomic():
            outcome = first()
            done.set()
            assert go.wait(PATIENCE)
        return outcome

    leader, follower = Rival(held), Rival(second)
    leader.start()
    assert done.wait(PATIENCE), f"the first never came to its commit: {leader.outcome!r}"
    follower.start()
    follower.ready.wait(PATIENCE)
    wait_until_blocked(follower, by=leader)
    go.set()
    return leader.result(), follower.result()


@pytest.mark.parametrize("before", ["nobody", "somebody whose time ran out"])
def test_the_second_of_two_waits_for_the_first_and_is_told_who_has_it(before: str, office: Office) -> None:
    approval = office.approval(office.ask())
    frank = office.person("frank", office.north, "approver")
    if before != "nobody":
        claim(office, frank, approval)
        Claim.objects.update(since=clock.now() - timedelta(hours=1), until=clock.now() - timedelta(seconds=1))
    won, lost = race(lambda: claim(office, office.alice, approval), lambda: claim(office, office.erin, approval))
    assert isinstance(won, Claim)
    assert isinstance(lost, Claimed)
    assert lost.details == {"claim": {"by": "alice", "until": won.until.isoformat()}}
    assert Claim.objects.get().holder_name == "alice"


def test_who_asks_for_it_while_it_is_given_back_waits_and_has_it(office: Office) -> None:
    approval = office.approval(office.ask())
    claim(office, office.alice, approval)
    alice = office.actor(office.alice, office.north)
    given, taken = race(
        lambda: release_claim(office.north, alice, approval.pk), lambda: claim(office, office.erin, approval)
    )
    assert given is True
    assert taken.holder_name == Claim.objects.get().holder_name == "erin"


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
