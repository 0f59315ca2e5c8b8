"""Rows for the pictures: each state that a page has words for, with texts as long and as odd as they come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User

from cayu_review.services.claim import claim_approval
from cayu_review.services.membership import Limits, grant_role
from cayu_review.services.token import create_token, revoke_token
from cayu_review.sign_in import FAILURES_OF_ACCOUNT, admit
from cayu_runtime.contracts import Actor, Agreement, Stage
from cayu_runtime.models import Approval, Proposal
from cayu_runtime.services.pause import pause_dispatch
from cayu_runtime.services.session import interrupt_session, start_session
from cayu_runtime.services.tenant import create_tenant
from tests import rows
from tests.reviewing import VERIFY, Operator, act, propose
from tests.web.office import Office

from .addresses import STORY, States
from .effects import make_effects

SETS = 4  # one for each window of a picture that decides one
ODD = {"order": "1042\u202e", "memo": "x" * 900, "lines": [1, 2.5, {"deep": None}], "empty": "", "<b>": "<i>"}


def make_states() -> States:
    states = States(Office(), create_tenant("west", "West Ltd"))
    for make in (_people, _sessions, make_effects, _asked, _decided, _together, _reviewed, _paused, _granted):
        make(states)
    return states


def _people(states: States) -> None:
    for _ in range(FAILURES_OF_ACCOUNT):
        admit("mallory", "")
    office = states.office
    office.person("frank", office.north, "viewer")
    office.person("grace", states.west, "viewer", "approver")
    ada = User.objects.create_superuser("ada")
    for role in ("viewer", "auditor", "administrator"):
        grant_role(ada, office.north, role)
    states.of["person limited"] = f"/people/{office.erin.pk}/"
    names = ("refund", "pay*"), ("order 1042", "a-very-long-name-of-a-target/" * 6)
    grant_role(office.erin, office.north, "approver", limits=Limits(2, *names, valid_until=rows.LATER))
    office.person("olga", states.west, "administrator")
    create_token(office.north, "night-batch", office.bob, ["read", "run"], 30)
    revoke_token(create_token(office.north, "an old one", office.alice, ["read"], 30)[0].pk)


def _paused(states: States) -> None:
    ops = Actor("shell:ops", "ops", None, "shell")
    pause_dispatch(ops, reason="the bank is down", tool="label")
    pause_dispatch(ops, reason="it booked twice on Friday", tool="refund", agent="desk", tenant=states.office.north)


def _granted(states: States) -> None:
    """A grant in each state, with a range as long as it may read."""
    north = states.office.north
    rules = {"order": {"one_of": ["1042", "a-very-long-order/" * 9]}, "amount": {"min": "0", "max": "50.00"}}
    values: dict[str, Any] = {"tenant": north, "made_by_name": "erin"}
    rows.grant(**values, rules=rules, uses=3, last_used_at=rows.NOW)
    rows.grant(**values, rules={"order": {"any": True}}, agent="desk", uses=10, tool="label")
    over: dict[str, Any] = {"made_at": rows.NOW - timedelta(days=2), "expires_at": rows.NOW - timedelta(days=1)}
    rows.grant(**values, **over, rules={})
    taken: dict[str, Any] = {
        "revoked_at": rows.NOW,
        "revoked_by": "user:1",
        "revoked_by_name": "alice",
        "revoke_reason": "it is over",
    }
    rows.grant(**values, **taken)


def _sessions(states: States) -> None:
    """Each state and each interruption that needs no story, oldest first."""
    later = rows.NOW + timedelta(minutes=4)
    stopped: Callable[[str], dict[str, Any]] = lambda why: {"interruption": why, "stopped_by": why}  # noqa: E731
    wanted: list[tuple[str, str, dict[str, Any]]] = [
        ("failed", "failed", {}),
        ("running", "running", {}),
        ("stopping", "interrupting", {"stopped_by": "operator_requested"}),
        ("ready", "pending", {}),
        ("waits for its model", "pending", {"model_failures": 3, "runnable_at": later}),
        ("held back", "pending", {"runnable_at": later}),
        ("client", "interrupted", {"interruption": "client_execution", "client_driven": True}),
        *((why, "interrupted", stopped(why)) for why in ("limit_reached", "model_unavailable", "worker_lost")),
        ("stopped", "interrupted", stopped("operator_requested")),
    ]
    for number, (name, state, more) in enumerate(wanted):
        values = {"created_at": rows.NOW - timedelta(hours=number + 1), "requester_name": "bob", "task": STORY, **more}
        states.session(name, rows.session(state, tenant=states.office.north, **values))
    asks = rows.session("interrupted", tenant=states.office.north, interruption="user_input_required", task=STORY)
    question = rows.question(call=rows.call("awaiting_answer", session=asks), text="In full, or half of it?")
    states.session("question", asks)
    states.of["question"] = f"/questions/{question.id}/"
    choices = ["All of it, 41.00", "Only the broken part, 12.50", "x" * 200]
    for name, state, more in (
        ("choices", "pending", {"choices": choices, "text": STORY + "\n\nHow much of it?"}),
        ("answered", "answered", {"answer": "Order 1042.\nThe second one."}),
        ("expired", "expired", {}),
    ):
        call = rows.call(rows.CALL_OF_QUESTION.get(state, state), session=rows.session(tenant=states.office.north))
        states.of[f"question {name}"] = f"/questions/{rows.question(state, call=call, **more).id}/"


def _asked(states: States) -> None:
    """What waits for a decision."""
    office = states.office
    several = office.ask(("look", {"order": "1"}), ("refund", ODD), ("label", {"order": "7"}), task=STORY * 4)
    states.session("waits", several)
    states.approval("odd", Approval.objects.get(session=several, tool="refund"))
    states.approval("idempotent", Approval.objects.get(session=several, tool="label"))
    for name, who in (("mine", office.alice), ("of a colleague", office.person("ann lee", office.north, "approver"))):
        claimed = office.approval(office.ask(("refund", {"order": "31"}), task="refund order 31"))
        claim_approval(office.north, office.actor(who, office.north), claimed.pk)
        states.approval(name, claimed)
    states.approval("own", office.approval(office.ask(by=office.alice, task="refund my own order")))
    states.approval("near its end", office.approval(office.ask(("refund", {"order": "12"}), expires_in=900)))
    states.approval("long", office.approval(office.ask(("refund", {"order": "9", "story": STORY * 800}))))
    board = Agreement((Stage(2), Stage(1, tier=3)), escalate_after=86400, conditions=True)
    shared = office.approval(office.ask(("refund", {"order": "order 1042"}), task="refund order 1042", agreement=board))
    form = office.form(shared, "approve", condition="Only if the parcel is back.", reason="I saw the photographs.")
    office.client(office.alice).post(f"/approvals/{shared.id}/decide/", form)
    states.approval("several people", shared)
    states.session("long", office.ask(("look", {"order": "9"}), gated=(), task=STORY * 90))
    for number in range(6):
        office.ask(("refund", {"order": f"{2000 + number}"}), task=f"refund order {2000 + number}")


def _decided(states: States) -> None:
    office = states.office
    client = office.client(office.alice)
    for name, verdict in (("denied", "deny"), ("approved", "approve"), ("done", "approve")):
        session = office.ask(("refund", {"order": f"77-{name}"}), task=f"refund order 77, to be {name}")
        approval = office.approval(session)
        client.post(
            f"/approvals/{approval.id}/decide/", office.form(approval, verdict, reason="It was agreed by phone.")
        )
        if name != "approved":
            office.run(session)
        states.approval(name, approval)
        states.session(name, session)
    session = office.ask(("refund", {"order": "78"}), task="refund order 78, to be cancelled")
    states.approval("cancelled", office.approval(session))
    interrupt_session(office.north, office.actor(office.alice, office.north), session.session_id, reason="A mistake.")
    states.session("cancelled", session)


def _together(states: States) -> None:
    """Requests that can be decided in one, some of which cannot be any more."""
    office = states.office
    labels = [office.approval(office.ask(("label", {"order": f"{3000 + number}"}))) for number in range(3 + 2 * SETS)]
    gone = Approval.objects.get(pk=states.of["approval denied"].split("/")[2])
    states.together("to read", [*labels[:3], gone])
    for number in range(SETS):
        states.together(f"to decide {number}", labels[3 + number :: SETS])
    states.together("nothing", [gone])


def _reviewed(states: States) -> None:
    office = states.office
    asker = office.actor(office.bob, office.north)
    for name, action_id in (("matches", "change-0001"), ("differs", "change-0002")):
        action = {"action_id": action_id}
        operator = Operator([propose(**action)], [act(**action), VERIFY], name=f"operator-{name}")
        session = start_session(office.north, asker, agent=operator.agent.name, text="correct the demo")
        office.run(session)
        states.approval(name, office.approval(session))
        if name == "differs":
            Proposal.objects.filter(session=session).update(fields={**action, "target": "other", "extra": 1})
        states.session(f"proposal {name}", session)
