"""The act-once contract of the seed against the real ledger, by every door (CASES C1, C5, C7, C9)."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from django.core.management import call_command
from django.db import connections

from cayu_runtime.models import Attempt, EffectRecord, Event
from cayu_runtime.services.tenant import create_tenant
from tests.conftest import environment_of_children
from tests.e2e.commit_then_raise import (
    DOORS,
    WHY,
    ApiDoor,
    BrowserDoor,
    Door,
    Place,
    ShellDoor,
    record_of,
    the_answer_was_lost,
    the_request_was_lost,
    unknown,
    until_it,
)
from tests.faults.deployment import ROOT, Supervisor, until
from tests.faults.load import Web, open_office
from tests.unit.ledger.test_process import Process

pytestmark = pytest.mark.timeout(150)


@pytest.fixture(scope="module")
def transactional_db(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The test database, open to the processes of this module, and empty after them."""
    with django_db_blocker.unblock():
        yield
        call_command("flush", verbosity=0, interactive=False, inhibit_post_migrate=True)
        connections.close_all()


@pytest.fixture(scope="module")
def place(transactional_db: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    tenant = create_tenant("shop", "Shop Ltd")
    open_office(tenant)
    ledger = Process(folder / "ledger.sqlite3")
    settings = {"CAYU_DEMO": "1", "CAYU_LEDGER_URL": ledger.url, "CAYU_WORKERS": "1", "CAYU_LEASE_SECONDS": "5"}
    environment = {**environment_of_children(), **settings}
    web = Web({**environment, "CAYU_PROCESS": "web"}, folder / "web.log")
    supervisor = Supervisor(environment, folder / "worker.log")
    try:
        web.until_live()
        yield Place(tenant, environment, ledger, folder / "ledger.sqlite3", web, supervisor)
    finally:
        supervisor.end()
        web.kill()
        ledger.close()


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, place: Place, monkeypatch: pytest.MonkeyPatch) -> Door:
    from cayu_project.demo.agents import REFUNDS

    monkeypatch.setitem(REFUNDS.resources, "ledger", place.ledger.url)  # for lookups in this process
    return DOORS[request.param](place)


def order(door: Door, number: int) -> str:
    """An order of its own for each story and door: equal actions would hold each other."""
    return f"{number}{list(DOORS.values()).index(type(door))}"


def test_a_lost_answer_is_looked_up_and_the_session_goes_on(door: Door) -> None:  # C1
    the_answer_was_lost(door, order(door, 10), door.look_up, "lookup")


def test_a_receipt_of_the_ledger_settles_it_as_well(door: Door) -> None:  # C5
    number = order(door, 11)
    the_answer_was_lost(door, number, lambda effect: door.bring(effect, record_of(door.place, number)), "supplied")


def test_a_lost_request_is_barred_approved_anew_and_sent_once_more(door: Door) -> None:  # C9
    the_request_was_lost(door, order(door, 12))


@pytest.fixture
def at_a_browser(place: Place, browser: Any) -> Iterator[BrowserDoor]:
    door = BrowserDoor(place, browser)
    yield door
    door.close()


@pytest.mark.chromium
def test_the_same_holds_at_the_pages(at_a_browser: BrowserDoor) -> None:  # C1, C5, C9
    door = at_a_browser
    the_answer_was_lost(door, "140", door.look_up, "lookup")
    the_answer_was_lost(door, "141", lambda effect: door.bring(effect, record_of(door.place, "141")), "supplied")
    the_request_was_lost(door, "142")


# ---- whoever asks dies while the ledger is being asked (C7) ----


def asking_by_api(door: ApiDoor, effect: EffectRecord) -> Any:
    person = door.signed_in("approver")
    path = f"/api/v1/calls/{effect.call_id}/effect/"
    shown = person.client.get(path).json()
    body = {"kind": "lookup", "revision": shown["revision"], "dispatch_id": shown["dispatch_id"], "reason": WHY}

    def ask() -> None:
        with suppress(httpx.HTTPError):
            person.client.post(
                f"{path}reconcile/", json=body, headers={"X-CSRFToken": person.client.cookies["csrftoken"]}
            )
        person.close()

    thread = threading.Thread(target=ask)
    thread.start()

    def dies() -> None:
        door.place.web.kill()
        thread.join()
        door.place.web.start()
        door.place.web.until_live()

    return dies


def asking_by_shell(door: ShellDoor, effect: EffectRecord) -> Any:
    seen = f"{effect.revision}:{effect.dispatch_id}"
    words = ("lookup", str(effect.id), "--seen", seen, "--as", "approver", "--reason", WHY)
    process = subprocess.Popen(
        door.command(*words), cwd=ROOT, env=door.place.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def dies() -> None:
        process.kill()
        process.wait()

    return dies


@pytest.mark.parametrize("kind, asking", [(ApiDoor, asking_by_api), (ShellDoor, asking_by_shell)], ids=["api", "shell"])
def test_a_process_that_dies_while_it_asks_leaves_the_attempt_and_a_newer_one_supersedes_it(
    place: Place, kind: type[Door], asking: Any
) -> None:  # C7
    door = kind(place)
    effect = unknown(door, order(door, 13), "lose the answer")
    ledger = place.ledger.popen.pid
    os.kill(ledger, signal.SIGSTOP)
    try:
        dies = asking(door, effect)
        lookups = Attempt.objects.filter(effect=effect, kind="lookup").order_by("admitted_at")
        first = until("the attempt is admitted", lookups.first)
        dies()
    finally:
        os.kill(ledger, signal.SIGCONT)
    first.refresh_from_db()
    effect.refresh_from_db()
    assert (first.state, effect.state, first.actor) == ("admitted", "outcome_unknown", place.actor("approver").subject)
    door.look_up(effect)
    until_it(effect.session, "completed")
    loser, winner = lookups
    assert (loser.pk, loser.state, winner.state) == (first.pk, "superseded", "selected")
    conflict = Event.objects.get(session=effect.session, type="tool.effect.reconciliation.conflict").payload
    assert loser.request_digest is not None
    assert winner.request_digest is not None
    assert (conflict["loser"], conflict["winner"]) == (loser.request_digest.hex(), winner.request_digest.hex())
    assert len(place.booked(order(door, 13))) == len(place.arrived(order(door, 13))) == 1
