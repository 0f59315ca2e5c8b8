"""The seed's act-once contract, told once for every door: commit, lose the answer, ask, go on.

A *door* is how people come in: it asks, approves and settles, and nothing else. What happened is read elsewhere: in the
ledger's own file, and in the rows. A new door is a subclass of `Door`; the stories below hold for it.

The place is real: the ledger, a supervisor with a worker, and a web process, all on the database of the tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from cayu_runtime.contracts import Actor
from cayu_runtime.models import Approval, Attempt, EffectRecord, Event, Message, Session, Tenant
from cayu_runtime.services.approval import decide_approval
from cayu_runtime.services.effect import Seen, look_up_effect, supply_receipt
from cayu_runtime.services.session import start_session
from tests.faults.deployment import ROOT, Supervisor, until
from tests.faults.load import PASSWORD, Person, Web
from tests.unit.ledger.observer import rows
from tests.unit.ledger.test_process import Process

WHY = "the customer called"


@dataclass
class Place:
    tenant: Tenant
    environment: dict[str, str]
    ledger: Process
    ledger_file: Path
    web: Web
    supervisor: Supervisor

    def booked(self, order: str) -> list[tuple[Any, ...]]:
        """What the ledger really has under this order: key and amount of each refund."""
        return rows(self.ledger_file, f"SELECT idempotency_key, amount FROM refunds WHERE order_id = '{order}'")

    def arrived(self, order: str) -> list[str]:
        """The key of each request that reached the ledger, whatever came of it."""
        found = rows(self.ledger_file, f"SELECT idempotency_key FROM requests WHERE order_id = '{order}' ORDER BY id")
        return [key for (key,) in found]

    def actor(self, name: str) -> Actor:
        return Actor(f"user:{User.objects.get(username=name).pk}", name, self.tenant.id, "web")


class Door:
    """The services, called as every other door calls them."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def ask(self, text: str) -> Session:
        return start_session(self.place.tenant, self.place.actor("requester"), agent="refunds", text=text)

    def approve(self, approval: Approval) -> None:
        seen: dict[str, Any] = {"version": approval.version, "digest": bytes(approval.intent_digest).hex()}
        decide_approval(self.place.tenant, self.place.actor("approver"), approval.id, verdict="approve", **seen)

    def look_up(self, effect: EffectRecord) -> None:
        seen = Seen(effect.revision, effect.dispatch_id)
        look_up_effect(self.place.tenant, self.place.actor("approver"), effect.id, seen, reason=WHY)

    def bring(self, effect: EffectRecord, receipt: dict[str, Any]) -> None:
        seen = Seen(effect.revision, effect.dispatch_id)
        supply_receipt(self.place.tenant, self.place.actor("approver"), effect.id, seen, receipt, reason=WHY)


class ApiDoor(Door):
    """HTTP with the web process: people with their web sessions, who repeat what they read there."""

    def ask(self, text: str) -> Session:
        started = self._post("requester", "sessions/", {"agent": "refunds", "text": text})
        return Session.objects.get(tenant=self.place.tenant, session_id=started["session_id"])

    def approve(self, approval: Approval) -> None:
        page = self._get("approver", f"pending-actions/?session_id={approval.session.session_id}")
        (waiting,) = page["results"]
        body = {"decision": "approve", "version": waiting["version"], "digest": waiting["digest"], "reason": "seen"}
        self._post("approver", f"approvals/{waiting['id']}/decide/", body)

    def look_up(self, effect: EffectRecord) -> None:
        self._reconcile(effect, kind="lookup")

    def bring(self, effect: EffectRecord, receipt: dict[str, Any]) -> None:
        self._reconcile(effect, kind="receipt", receipt=receipt)

    def _reconcile(self, effect: EffectRecord, **asked: Any) -> None:
        path = f"calls/{effect.call_id}/effect/"
        shown = self._get("approver", path)
        assert shown["uncertain"]
        assert shown["ways"][asked["kind"]]
        seen = {"revision": shown["revision"], "dispatch_id": shown["dispatch_id"]}
        body = {**asked, **seen, "reason": WHY}
        done = self._post("approver", f"{path}reconcile/", body)
        again = self._post("approver", f"{path}reconcile/", body)
        assert (done["replay"], again["replay"], again["finding"]) == (False, True, done["finding"])

    def _get(self, who: str, path: str) -> Any:
        with closing(self.signed_in(who)) as person:
            answer = person.client.get(f"/api/v1/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def _post(self, who: str, path: str, body: dict[str, Any]) -> Any:
        with closing(self.signed_in(who)) as person:
            headers = {"X-CSRFToken": person.client.cookies["csrftoken"]}
            answer = person.client.post(f"/api/v1/{path}", json=body, headers=headers, timeout=20)
        assert answer.status_code in (200, 202), answer.text
        return answer.json()

    def signed_in(self, who: str) -> Person:
        person = Person(self.place.web, who)
        person.sign_in()
        return person


class ShellDoor(Door):
    """`manage.py effects`, a process for each command; asking and approving is not done there."""

    def look_up(self, effect: EffectRecord) -> None:
        self._run("lookup", str(effect.id), *self._signed(effect))

    def bring(self, effect: EffectRecord, receipt: dict[str, Any]) -> None:
        self._run("receipt", str(effect.id), "-", *self._signed(effect), stdin=json.dumps(receipt))

    def _signed(self, effect: EffectRecord) -> tuple[str, ...]:
        listed = json.loads(self._run("list", "--tenant", self.place.tenant.slug, "--json"))
        assert str(effect.id) in [row["id"] for row in listed["effects"]]
        shown = json.loads(self._run("show", str(effect.id), "--json"))
        return ("--seen", shown["seen"], "--as", "approver", "--reason", WHY)

    def _run(self, *words: str, stdin: str = "") -> str:
        ended = subprocess.run(
            self.command(*words), cwd=ROOT, env=self.place.environment, input=stdin, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    @staticmethod
    def command(*words: str) -> list[str]:
        return [sys.executable, "manage.py", "effects", *words]


class BrowserDoor(Door):
    """The pages, in a browser profile of each person's own. `browser` is Playwright's."""

    def __init__(self, place: Place, browser: Any) -> None:
        super().__init__(place)
        self.contexts = {name: browser.new_context() for name in ("requester", "approver")}
        self.pages = {name: self._signed_in(name) for name in self.contexts}

    def close(self) -> None:
        for context in self.contexts.values():
            context.close()

    def ask(self, text: str) -> Session:
        page = self._at("requester", "/start/")
        page.get_by_label("What should it do?").fill(text)
        page.get_by_role("button", name="Start session").click()
        page.wait_for_url("**/sessions/*/")
        session_id = page.url.rstrip("/").rpartition("/")[2]
        return Session.objects.get(tenant=self.place.tenant, session_id=session_id)

    def approve(self, approval: Approval) -> None:
        page = self._at("approver", f"/approvals/{approval.id}/")
        page.get_by_role("button", name="Approve and", exact=False).first.click()
        page.get_by_role("button", name="Yes,", exact=False).click()
        page.get_by_text("Not dispatched yet", exact=False).first.wait_for()

    def look_up(self, effect: EffectRecord) -> None:
        page = self._of_queue(effect)
        page.get_by_label("Why do you ask?").fill(WHY)
        page.get_by_role("button", name="Look up now").click()
        page.get_by_text("Lookup", exact=True).first.wait_for()

    def bring(self, effect: EffectRecord, receipt: dict[str, Any]) -> None:
        page = self._of_queue(effect)
        page.get_by_text("It happened: I have the receipt").click()
        page.get_by_label("Receipt, as JSON", exact=False).fill(json.dumps(receipt))
        page.get_by_label("Where does it come from?").fill(WHY)
        page.get_by_role("button", name="Have this receipt judged").click()
        page.get_by_text("Supplied receipt", exact=True).first.wait_for()

    def _of_queue(self, effect: EffectRecord) -> Any:
        page = self._at("approver", "/reconcile/")
        page.locator(f"a[href='/effects/{effect.id}/']").first.click()
        page.wait_for_url(f"**/effects/{effect.id}/")
        return page

    def _signed_in(self, name: str) -> Any:
        page = self.contexts[name].new_page()
        page.set_default_timeout(15_000)
        page.goto(f"{self.place.web.url}/accounts/login/")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{self.place.web.url}/")
        return page

    def _at(self, name: str, path: str) -> Any:
        self.pages[name].goto(f"{self.place.web.url}{path}")
        return self.pages[name]


DOORS = {"services": Door, "api": ApiDoor, "manage.py": ShellDoor}


# ---- the stories ----


def unknown(door: Door, order: str, accident: str) -> EffectRecord:
    """A refund that was approved and sent once, and whose answer never came."""
    session = door.ask(f"refund order {order} 4.00 because broken and {accident}")
    approve(door, session)
    until_it(session, "effect_outcome_unknown")
    effect = EffectRecord.objects.select_related("session").get(session=session)
    assert (effect.state, effect.dispatches, effect.receipt) == ("outcome_unknown", 1, None)
    assert door.place.arrived(order) == [effect.idempotency_key]
    return effect


def approve(door: Door, session: Session) -> Approval:
    asked = Approval.objects.filter(session=session, state="pending").select_related("session")
    approval: Approval = until("an approval is asked for", asked.first)
    door.approve(approval)
    return approval


def until_it(session: Session, what: str) -> None:
    def arrived() -> bool:
        session.refresh_from_db()
        return what in (session.state, session.interruption)

    until(f"the session is {what}", arrived, 40)


def the_answer_was_lost(door: Door, order: str, settle: Callable[[EffectRecord], None], source: str) -> None:
    """The ledger booked it and dropped the connection. Evidence says so, and the session goes on to its end."""
    place = door.place
    effect = unknown(door, order, "lose the answer")
    assert place.booked(order) == [(effect.idempotency_key, "4.00")]
    settle(effect)
    until_it(effect.session, "completed")
    before = effect.operation_id, effect.dispatch_id
    effect.refresh_from_db()
    assert (effect.state, effect.dispatches, effect.receipt["source"]) == ("completed", 1, source)
    assert (effect.operation_id, effect.dispatch_id) == before
    assert (effect.receipt["operation_id"], effect.receipt["dispatch_id"]) == (before[0], str(before[1]))
    assert place.arrived(order) == [effect.idempotency_key], "nothing was ever sent again"
    assert len(place.booked(order)) == 1
    kinds = list(Event.objects.filter(session=effect.session).order_by("seq").values_list("type", flat=True))
    story = [
        "tool.call.approval_requested", "tool.call.approved", "tool.call.started", "tool.effect.outcome_unknown",
        "tool.effect.reconciliation.started", "tool.effect.receipt.validated", "tool.call.completed",
        "session.completed",
    ]  # fmt: skip
    assert [kind for kind in kinds if kind in story] == story
    assert f"Order {order}: 4.00 was refunded" in last_text(effect.session)


def the_request_was_lost(door: Door, order: str) -> None:
    """The ledger booked nothing and bars the key. A fresh approval sends it once more, as a new dispatch."""
    place = door.place
    effect = unknown(door, order, "lose the request")
    assert place.booked(order) == []
    first = effect.operation_id, effect.dispatch_id, effect.idempotency_key
    door.look_up(effect)
    effect.refresh_from_db()
    assert (effect.state, effect.dispatches) == ("safe_to_retry", 1)
    until_it(effect.session, "approval_required")
    assert len(place.arrived(order)) == 1, "nothing is sent before it is approved again"
    again = approve(door, effect.session)
    until_it(effect.session, "completed")
    effect.refresh_from_db()
    assert (effect.state, effect.dispatches, again.version) == ("completed", 2, 2)
    assert effect.operation_id == first[0]
    assert effect.dispatch_id != first[1]
    assert place.arrived(order) == [first[2], effect.idempotency_key]
    assert place.booked(order) == [(effect.idempotency_key, "4.00")]
    dispatches = Attempt.objects.filter(effect=effect, kind="dispatch").values_list("dispatch_id", flat=True)
    assert set(dispatches) == {first[1], effect.dispatch_id}


def last_text(session: Session) -> str:
    body: Any = Message.objects.filter(session=session).order_by("-position").values_list("body", flat=True)[0]
    return "".join(str(part.get("content", "")) for part in body["parts"])


def record_of(place: Place, order: str) -> dict[str, Any]:
    """The ledger's own record, as its clerk would send it."""
    (refund,) = place.ledger.client.get("/refunds", params={"order_id": order}).json()["refunds"]
    return {name: value for name, value in refund.items() if name != "idempotency_key"}
