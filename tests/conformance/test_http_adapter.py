"""Every answer of an HTTP API has one stated outcome, for each effect class, by the generic tool and reconciler (C10).

The API counts what arrives: whatever it answers, an EXTERNAL action is sent once, an IDEMPOTENT one once more at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cayu_runtime import ToolEffect, ToolSpec
from cayu_runtime.models import Attempt, Event
from cayu_runtime.reconcilers.http import Bar, HttpReconciler, Match
from cayu_runtime.services.effect import supply_receipt
from cayu_runtime.tools.http import Credential, Endpoint, HttpTool, Record, When
from tests.http_api import Api, serving
from tests.machine import Gate, Machine, agent_of
from tests.settling import look_up, seen

pytestmark = pytest.mark.django_db(transaction=True)
TO = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"], "additionalProperties": False}
BOOKED = {"id": "r-1", "to": "x", "status": "booked"}
NOTHING = (404, {"error": "none"})


@pytest.fixture
def machine(settings: Any) -> Machine:
    settings.CAYU_AUTHORITY = "tests.machine.Everybody"
    return Machine()


@pytest.fixture
def api() -> Iterator[Api]:
    with serving(POST=None, GET=NOTHING) as api:
        yield api


def pay_at(api: Api, effect: ToolEffect, credential: Credential | None = None, **changed: Any) -> HttpTool:
    rules: dict[str, Any] = {
        "done": (When(200, "status", "booked"),),
        "refused": (When(200, "status", "declined"),),
        "absent": (When(404, "error", "none"),),
        "match": (Match("to", "to"),),
        "record": Record(("id", "to"), says="Booked as {id}."),
        "receipt": ("id",),
    }
    lookup = Endpoint(f"{api.url}/payments/{{idempotency_key}}", "GET", credential=credential)
    return HttpTool(
        ToolSpec("pay", "", TO, effect, timeout=10, target="to"),
        Endpoint(f"{api.url}/payments", credential=credential),
        done=(When(201),),
        refused=(When(422),),
        record=Record(("id", "to"), says="Booked as {id}."),
        reconciler=HttpReconciler(lookup, **{**rules, **changed}),
    )


CLASSES = pytest.mark.parametrize("effect", [ToolEffect.EXTERNAL, ToolEffect.IDEMPOTENT])


@CLASSES
@pytest.mark.parametrize(
    "answers, state, sent",
    [
        ([(201, BOOKED)], "completed", (1, 1)),
        ([(422, {"error": "no"})], "rejected", (1, 1)),
        ([None], "outcome_unknown", (1, 2)),
        ([(500, {})], "outcome_unknown", (1, 2)),
        ([(404, {})], "outcome_unknown", (1, 2)),
        ([(201, {"id": "r-1"})], "outcome_unknown", (1, 2)),
        ([(302, {}, {"Location": "/payments"})], "outcome_unknown", (1, 2)),
        ([None, (201, BOOKED)], None, (1, 2)),
    ],
    ids=["done", "refused", "lost", "error", "other 4xx", "no record", "redirect", "lost, then done"],
)
def test_what_an_answer_to_the_action_makes_of_its_effect(
    machine: Machine, api: Api, answers: list[Any], state: str | None, sent: tuple[int, int], effect: ToolEffect
) -> None:
    api.answers["POST"] = list(answers)
    session = machine.start(agent_of(pay_at(api, effect), policy=Gate()))
    repeats = effect is ToolEffect.IDEMPOTENT
    expected = state or ("completed" if repeats else "outcome_unknown")
    assert (machine.effect(session).state, len(api.asked)) == (expected, sent[repeats])
    assert len({asked.headers["Idempotency-Key"] for asked in api.asked}) == 1
    assert session.state == ("interrupted" if expected == "outcome_unknown" else "completed")


@CLASSES
@pytest.mark.parametrize(
    "answer, configured, state",
    [
        ((200, BOOKED), {}, "completed"),
        ((200, {**BOOKED, "status": "declined"}), {}, "rejected"),
        ((200, {**BOOKED, "to": "y"}), {}, "outcome_unknown"),
        (NOTHING, {}, "outcome_unknown"),
        (NOTHING, {"authoritative": True}, "outcome_unknown"),  # its worker is not known to be gone
        (NOTHING, {"barred": (When(404, "error", "none"),)}, "safe_to_retry"),
        ((404, {"error": "no such page"}), {}, "manual_review"),
        ((503, {}), {}, "manual_review"),
        (None, {}, "manual_review"),
    ],
    ids=["done", "declined", "another", "not found", "absent", "barred", "wrong page", "unavailable", "lost"],
)
def test_what_a_lookup_makes_of_an_unknown_effect(
    machine: Machine, api: Api, answer: Any, configured: dict[str, Any], state: str, effect: ToolEffect
) -> None:
    session = machine.start(agent_of(pay_at(api, effect, **configured), policy=Gate()))
    found = machine.effect(session)
    sent = len(api.of("POST"))
    api.answers["GET"] = [answer]
    if answer == (200, {**BOOKED, "to": "y"}):
        with pytest.raises(Exception, match="Another record"):
            look_up(machine, found)
    else:
        look_up(machine, found)
    machine.run(session)
    found.refresh_from_db()
    assert (found.state, len(api.of("POST")), len(api.of("GET"))) == (state, sent, 1)
    assert api.of("GET")[0].path == f"/payments/{api.of('POST')[0].headers['Idempotency-Key']}"


def test_a_bar_leads_to_a_fresh_approval_and_one_more_request_under_a_new_key(machine: Machine, api: Api) -> None:
    bar = Bar(Endpoint(f"{api.url}/bars", "PUT", ("idempotency_key",), key_header=""), (When(200, "barred", True),))
    session = machine.start(agent_of(pay_at(api, ToolEffect.EXTERNAL, authoritative=True, bar=bar), policy=Gate()))
    api.answers |= {"PUT": [(200, {"barred": True})], "POST": [(201, BOOKED)]}
    look_up(machine, machine.effect(session))
    (approval,) = machine.approvals(session)
    assert len(api.of("POST")) == 1
    machine.decide(approval, "approve")
    machine.run(session)
    first, second = (asked.headers["Idempotency-Key"] for asked in api.of("POST"))
    assert first != second
    assert api.of("PUT")[0].body == {"idempotency_key": first}
    assert (machine.effect(session).state, session.state) == ("completed", "completed")


def test_a_receipt_is_judged_by_the_api(machine: Machine, api: Api) -> None:
    session = machine.start(agent_of(pay_at(api, ToolEffect.EXTERNAL), policy=Gate()))
    api.answers["GET"] = [(200, BOOKED)]
    found = machine.effect(session)
    with pytest.raises(Exception, match="differs"):
        supply_receipt(machine.tenant, machine.bob, found.pk, seen(found), {"id": "r-2"}, reason="their mail")
    found.refresh_from_db()
    supply_receipt(machine.tenant, machine.bob, found.pk, seen(found), {"id": "r-1"}, reason="their mail")
    machine.run(session)
    found.refresh_from_db()
    assert (found.state, found.receipt["source"], session.state) == ("completed", "supplied", "completed")


CANARY = "canary-4711-value"


def test_a_secret_reaches_the_api_and_no_record(
    machine: Machine, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:  # D9
    monkeypatch.setenv("CAYU_SECRET_BANK_TOKEN", CANARY)
    tool = pay_at(api, ToolEffect.EXTERNAL, Credential("bank-token"))
    session = machine.start(agent_of(tool, policy=Gate()))
    api.answers["GET"] = [(200, {**BOOKED, "id": f"r-{CANARY}"})]  # an API that tells it again
    look_up(machine, machine.effect(session))
    machine.run(session)
    assert [asked.headers["Authorization"] for asked in api.asked] == [f"Bearer {CANARY}"] * 2
    found = machine.effect(session)
    assert found.state == "completed"
    assert machine.calls(session)[0].arguments["credential"] == {"$secret": "bank-token"}
    told = [
        found.receipt,
        list(Attempt.objects.filter(effect=found).values_list("evidence", flat=True)),
        list(Event.objects.filter(session=session).values_list("payload", flat=True)),
        machine.transcript(session),
        machine.calls(session)[0].result,
    ]
    assert CANARY not in str(told)
    assert "r-[secret bank-token]" in str(machine.calls(session)[0].result)


def test_a_lookup_without_its_secret_finds_nothing_and_says_why(
    machine: Machine, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAYU_SECRET_BANK_TOKEN", CANARY)
    session = machine.start(agent_of(pay_at(api, ToolEffect.EXTERNAL, Credential("bank-token")), policy=Gate()))
    monkeypatch.delenv("CAYU_SECRET_BANK_TOKEN")
    done = look_up(machine, machine.effect(session))
    assert (done.finding, api.of("GET")) == ("unavailable", [])
    assert "CAYU_SECRET_BANK_TOKEN is not set" in done.message
