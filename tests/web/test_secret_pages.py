"""A page shows which secret is used, never its value, also when a model brought it raw (D9)."""

import pytest

from cayu_runtime import Agent, Call, Reply, Secret, ToolEffect, Turn, registry, tool
from cayu_runtime.models import Session
from cayu_runtime.policies.approval import RequireApproval
from cayu_runtime.services.session import start_session
from tests.web.office import Office

CANARY = "c4nary-on-a-page"


@tool(effect=ToolEffect.EXTERNAL, verb="Pay")
def pay(to: str, token: Secret) -> str:
    return f"paid with {token}"


def careful(turn: Turn) -> Reply:
    return Reply("Done.") if turn.outcomes else Reply(calls=(Call("pay", {"to": "x", "token": {"$secret": "ledger"}}),))


def careless(turn: Turn) -> Reply:
    return (
        Reply("Refused.") if turn.outcomes else Reply(f"I use {CANARY}.", (Call("pay", {"to": "x", "token": CANARY}),))
    )


def started(office: Office, model: object) -> Session:
    policy = RequireApproval(("pay",))
    registry.register_for_test(Agent("payer", model, tools=(pay,), policy=policy))  # type: ignore[arg-type]
    return office.run(start_session(office.north, office.actor(office.bob, office.north), agent="payer", text="pay x"))


def test_pages_show_the_reference(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAYU_SECRET_LEDGER", CANARY)
    session = started(office, careful)
    approval, alice = office.approval(session), office.client(office.alice)
    asked = alice.get(f"/approvals/{approval.id}/").content.decode()
    assert "$secret" in asked
    assert "ledger" in asked
    alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    office.run(session)
    pages = [f"/approvals/{approval.id}/", f"/effects/{office.effect(session).id}/", f"/sessions/{session.session_id}/"]
    seen = asked + "".join(alice.get(address).content.decode() for address in pages)
    assert "paid with [secret ledger]" in seen
    assert CANARY not in seen


def test_no_page_shows_a_raw_value(office: Office) -> None:
    session = started(office, careless)
    page = office.client(office.alice).get(f"/sessions/{session.session_id}/").content.decode()
    assert "takes only a reference to a secret" in page
    assert CANARY not in page
