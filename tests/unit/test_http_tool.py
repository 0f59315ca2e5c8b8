"""The generic HTTP tool and reconciler: one request, and nothing definite that the API did not say."""

from __future__ import annotations

import socket
import time
from typing import Any

import httpx
import pytest

from cayu_runtime import (
    EffectNotPerformed,
    Finding,
    Inquiry,
    InvalidArguments,
    Observation,
    SecretValue,
    ToolContext,
    ToolEffect,
    ToolSpec,
)
from cayu_runtime.reconcilers.http import Bar, HttpReconciler, Match
from cayu_runtime.tools.http import AnswerUnknown, Credential, Endpoint, HttpTool, Record, When
from tests.http_api import Api, Asked, serving

KEY = "key-0123456789"
PROPERTIES = {"order": {"type": "string"}, "amount": {"type": "string"}, "note": {"type": "string"}}
SPEC = ToolSpec("refund", "", {"type": "object", "properties": PROPERTIES, "required": ["order", "amount"]})
ARGUMENTS = {"order": "A/7 ü", "amount": "25.50"}
RECORD = {"id": "rf_1", "amount": "25.50"}


def tool_at(url: str, **changed: Any) -> HttpTool:
    endpoint = changed.pop("endpoint", Endpoint(f"{url}/orders/{{order}}/refunds"))
    rules = {"done": (When(201),), "refused": (When(422), When(409, "error.code", "closed"))}
    record = Record(("id", "amount"), says="Booked as {id}.")
    return HttpTool(changed.pop("spec", SPEC), endpoint, **{**rules, "record": record, **changed})


def run(tool: HttpTool, seconds: float = 5, **arguments: Any) -> Any:
    ctx = ToolContext("s-1", idempotency_key=KEY, operation_id="op-1", seconds_left=seconds)
    return tool.run(ctx, tool.coerce({**ARGUMENTS, **arguments}))


# ---- the tool ----


def test_it_sends_one_request_under_the_key_and_returns_what_the_api_recorded() -> None:
    with serving(POST=(201, {**RECORD, "internal": "x"})) as api:
        result = run(tool_at(api.url), note="late")
    (asked,) = api.asked
    assert (asked.path, asked.body) == ("/orders/A%2F7%20%C3%BC/refunds", {"amount": "25.50", "note": "late"})
    assert asked.headers["Idempotency-Key"] == KEY
    assert (result.content, result.structured, result.is_error) == ("Booked as rf_1.", RECORD, False)


@pytest.mark.parametrize("answer", [(422, {"error": "too much"}), (409, {"error": {"code": "closed"}})], ids=str)
def test_what_is_configured_as_a_refusal_says_that_nothing_was_done(answer: Any) -> None:
    with serving(POST=answer) as api, pytest.raises(EffectNotPerformed, match=r"refused \(4"):
        run(tool_at(api.url))


UNKNOWN: dict[str, Any] = {
    "connection lost": None,
    "server error": (500, {}),
    "a 4xx that nobody configured": (400, {"error": "bad"}),
    "the status of a refusal with another code": (409, {"error": {"code": "again"}}),
    "the status of a refusal, no JSON": (409, b"<html>"),
    "done without its record": (201, {"id": "rf_1"}),
    "done without JSON": (201, b"created"),
    "another success": (202, RECORD),
    "redirect": (303, {}, {"Location": "/elsewhere"}),
    "too long": (201, {**RECORD, "padding": "x" * 70_000}),
}


@pytest.mark.parametrize("answer", UNKNOWN.values(), ids=UNKNOWN)
def test_anything_else_leaves_the_outcome_unknown_and_is_not_sent_again(answer: Any) -> None:
    with serving(POST=answer, GET=(201, RECORD)) as api, pytest.raises((httpx.TransportError, AnswerUnknown)):
        run(tool_at(api.url))
    assert len(api.asked) == 1


def test_an_answer_that_two_rules_understand_differently_is_no_answer() -> None:
    with serving(POST=(201, RECORD)) as api, pytest.raises(AnswerUnknown):
        run(tool_at(api.url, refused=(When(201, "id"),)))


def test_a_slow_answer_is_unknown_within_the_deadline() -> None:
    def slowly(asked: Asked) -> Any:
        time.sleep(1)
        return 201, RECORD

    with serving(POST=slowly) as api:
        began = time.monotonic()
        with pytest.raises(httpx.TimeoutException):
            run(tool_at(api.url), seconds=0.2)
        assert time.monotonic() - began < 0.9
    assert len(api.asked) == 1


def test_a_connection_that_was_never_made_means_that_nothing_was_done() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # taken, and not listening
        with pytest.raises(EffectNotPerformed, match="never sent"):
            run(tool_at(f"http://127.0.0.1:{listener.getsockname()[1]}"))


@pytest.mark.parametrize("order", ["..", ".", "", 7.5, True, None, ["x"]], ids=str)
def test_a_value_that_leads_elsewhere_is_refused_before_anybody_is_asked_to_approve(order: Any) -> None:
    with pytest.raises(InvalidArguments, match="order"):
        tool_at("http://127.0.0.1:1").coerce({**ARGUMENTS, "order": order})


def test_a_header_takes_an_argument_and_is_left_out_without_one() -> None:
    endpoint = Endpoint("http://x/refunds", headers={"X-Note": "{note}"}, key_header="X-Request-Id")
    assert endpoint.header_values({"note": "a", "idempotency_key": KEY}) == {"X-Note": "a", "X-Request-Id": KEY}
    assert endpoint.header_values({"idempotency_key": KEY}) == {"X-Request-Id": KEY}
    with pytest.raises(InvalidArguments, match="X-Note"):
        tool_at("http://x", endpoint=endpoint).coerce({**ARGUMENTS, "note": "a\r\nHost: evil"})


def test_the_credential_is_the_configured_reference_whatever_the_model_says() -> None:
    with serving(POST=(201, RECORD)) as api:
        tool = tool_at(api.url, endpoint=Endpoint(f"{api.url}/refunds", credential=Credential("shop-key")))
        arguments = tool.coerce(ARGUMENTS)
        assert arguments["credential"] == {"$secret": "shop-key"}
        assert tool.takes_secrets
        with pytest.raises(InvalidArguments, match="leave this out"):
            tool.coerce({**ARGUMENTS, "credential": {"$secret": "root-key"}})
        ctx = ToolContext("s-1", idempotency_key=KEY, seconds_left=5)
        tool.run(ctx, {**arguments, "credential": SecretValue("s3cret-value")})
        assert api.asked[0].headers["Authorization"] == "Bearer s3cret-value"
        assert "credential" not in api.asked[0].body
        with pytest.raises(EffectNotPerformed, match="shop-key"):
            tool.run(ctx, {**arguments, "credential": SecretValue("s3cret\nvalue")})
    assert len(api.asked) == 1


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"done": ()}, "which answers mean"),
        ({"endpoint": Endpoint("https://x/{shop}")}, "'shop'"),
        ({"endpoint": Endpoint("https://x/", body={"sum": "total"})}, "'total'"),
        (
            {"spec": ToolSpec("t", effect=ToolEffect.IDEMPOTENT), "endpoint": Endpoint("https://x/", key_header="")},
            "IDEMPOTENT needs",
        ),
        ({"spec": ToolSpec("t", "", {"properties": {"credential": {}}})}, "'credential' is taken"),
    ],
    ids=["done", "path", "body", "idempotent", "credential"],
)
def test_a_configuration_that_cannot_work_is_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tool_at("https://x", **changed)


@pytest.mark.parametrize("url", ["x/refunds", "ftp://x/", "https://{shop}.example.com/", "https://a@b/", "https://"])
def test_the_host_is_written_out(url: str) -> None:
    with pytest.raises(ValueError, match="scheme and host"):
        Endpoint(url)


def test_a_method_is_written_as_http_has_it() -> None:
    with pytest.raises(ValueError, match="'get' is none of"):
        Endpoint("https://x/", "get")


@pytest.mark.parametrize("wrong", [{"secret": "a key"}, {"secret": "k", "format": "Bearer"}], ids=str)
def test_a_credential_names_a_secret_and_its_place(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="Credential"):
        Credential(**wrong)


# ---- the reconciler ----


def inquiry(seconds: float = 5, **changed: Any) -> Inquiry:
    return Inquiry("op-1", KEY, "d1", "t1", "s-1", "refund", "1", {**ARGUMENTS, **changed}, seconds_left=seconds)


def reconciler_at(url: str, **changed: Any) -> HttpReconciler:
    rules: dict[str, Any] = {
        "done": (When(200, "status", "booked"),),
        "refused": (When(200, "status", "declined"),),
        "absent": (When(404, "error", "none"),),
        "match": (Match("amount", "amount", as_number=True),),
        "record": Record(("id", "amount"), says="Booked as {id}."),
        "receipt": ("id", "amount"),
    }
    endpoint = changed.pop("endpoint", Endpoint(f"{url}/refunds?key={{idempotency_key}}", "GET"))
    return HttpReconciler(endpoint, **{**rules, **changed})


def found_for(answer: Any, **changed: Any) -> Observation:
    with serving(GET=answer) as api:
        return reconciler_at(api.url, **changed).lookup(inquiry())


def test_a_record_that_stands_under_the_key_and_fits_confirms_it() -> None:
    with serving(GET=(200, {**RECORD, "status": "booked"})) as api:
        found = reconciler_at(api.url).lookup(inquiry())
    (asked,) = api.asked
    assert (asked.path, asked.body) == (f"/refunds?key={KEY}", None)
    assert "Idempotency-Key" not in asked.headers
    assert found.finding is Finding.CONFIRMED_DONE
    assert found.result is not None
    assert (found.result.content, found.evidence["record"]) == ("Booked as rf_1.", RECORD)


@pytest.mark.parametrize(
    "answer, finding",
    [
        ((200, {**RECORD, "status": "declined"}), Finding.CONFIRMED_REFUSED),
        ((200, {**RECORD, "status": "booked", "amount": "25.5"}), Finding.CONFIRMED_DONE),
        ((200, {**RECORD, "status": "booked", "amount": "255"}), Finding.CONFLICT),
        ((200, {**RECORD, "status": "pending"}), Finding.UNAVAILABLE),
        ((200, {"status": "booked"}), Finding.UNAVAILABLE),
        ((404, {"error": "none"}), Finding.NOT_FOUND),
        ((404, {"error": "no such page"}), Finding.UNAVAILABLE),
        ((404, b""), Finding.UNAVAILABLE),
        ((302, {}, {"Location": "/"}), Finding.UNAVAILABLE),
        ((503, {}), Finding.UNAVAILABLE),
        (None, Finding.UNAVAILABLE),
    ],
    ids=str,
)
def test_each_answer_has_one_finding(answer: Any, finding: Finding) -> None:
    assert found_for(answer).finding is finding


def test_an_answer_that_two_rules_understand_differently_finds_nothing() -> None:
    both = (200, {**RECORD, "status": "booked"})
    assert found_for(both, refused=(When(200, "id"),)).finding is Finding.UNAVAILABLE
    assert found_for(both, absent=(When(200),), authoritative=True).finding is Finding.UNAVAILABLE


def test_an_absence_is_a_proof_only_where_the_api_is_the_authority() -> None:
    nothing = (404, {"error": "none"})
    assert found_for(nothing).finding is Finding.NOT_FOUND
    found = found_for(nothing, authoritative=True)
    assert (found.finding, found.barred) == (Finding.ABSENT, False)
    found = found_for(nothing, barred=(When(404, "error", "none"),))
    assert (found.finding, found.barred) == (Finding.ABSENT, True)


def barring(api: Api) -> HttpReconciler:
    bar = Bar(Endpoint(f"{api.url}/bars", body={"key": "idempotency_key"}, key_header=""), (When(200, "barred", True),))
    return reconciler_at(api.url, authoritative=True, bar=bar)


def test_a_bar_makes_an_absence_last() -> None:
    with serving(GET=(404, {"error": "none"}), POST=(200, {"barred": True})) as api:
        found = barring(api).lookup(inquiry())
    assert (found.finding, found.barred) == (Finding.ABSENT, True)
    (asked,) = api.of("POST")
    assert asked.body == {"key": KEY}
    assert "Idempotency-Key" not in asked.headers


@pytest.mark.parametrize(
    "then, finding",
    [((200, {**RECORD, "status": "booked"}), Finding.CONFIRMED_DONE), ((404, {"error": "none"}), Finding.UNAVAILABLE)],
    ids=["came in between", "can't be barred"],
)
def test_where_no_bar_is_confirmed_it_looks_again(then: Any, finding: Finding) -> None:
    with serving(GET=[(404, {"error": "none"}), then], POST=(409, {"barred": False})) as api:
        assert barring(api).lookup(inquiry()).finding is finding
    assert len(api.of("POST")) == 1


def test_nothing_is_barred_that_was_found_or_to_judge_a_receipt() -> None:
    with serving(GET=(200, {**RECORD, "status": "booked"}), POST=(200, {"barred": True})) as api:
        barring(api).lookup(inquiry())
    assert api.of("POST") == []
    with serving(GET=(404, {"error": "none"}), POST=(200, {"barred": True})) as api:
        assert barring(api).validate_receipt(RECORD, inquiry()).finding is Finding.CONFLICT
    assert api.of("POST") == []


@pytest.mark.parametrize(
    "receipt, finding",
    [
        (RECORD, Finding.CONFIRMED_DONE),
        ({**RECORD, "paper": "blue"}, Finding.CONFIRMED_DONE),
        ({**RECORD, "id": "rf_2"}, Finding.CONFLICT),
        ({**RECORD, "amount": 25.5}, Finding.CONFLICT),
        ({"id": "rf_1"}, Finding.CONFLICT),
        ({"text": "receipt_id: rf_1"}, Finding.CONFLICT),
    ],
    ids=str,
)
def test_a_receipt_counts_by_the_api_s_own_record(receipt: dict[str, Any], finding: Finding) -> None:
    with serving(GET=(200, {**RECORD, "status": "booked"})) as api:
        assert reconciler_at(api.url).validate_receipt(receipt, inquiry()).finding is finding


def test_without_receipt_fields_none_is_taken() -> None:
    adapter = reconciler_at("https://x", receipt=())
    assert (adapter.looks_up, adapter.takes_receipts) == (True, False)
    assert adapter.validate_receipt(RECORD, inquiry()).finding is Finding.UNSUPPORTED


def test_a_lookup_has_its_credential_and_says_when_this_process_has_none() -> None:
    with serving(GET=(404, {"error": "none"})) as api:
        endpoint = Endpoint(f"{api.url}/refunds?key={{idempotency_key}}", "GET", credential=Credential("shop-key"))
        adapter = reconciler_at(api.url, endpoint=endpoint)
        assert adapter.lookup(inquiry()).finding is Finding.UNAVAILABLE
        assert api.asked == []
        asked = Inquiry("op-1", KEY, "d1", "t1", "s-1", "refund", "1", ARGUMENTS, read_secret=lambda reference: "v4lue")
        assert adapter.lookup(asked).finding is Finding.NOT_FOUND
    assert api.asked[0].headers["Authorization"] == "Bearer v4lue"


KEYED = "https://x/?key={idempotency_key}"
POSTED = Endpoint("https://x/", body=("operation_id",), key_header="")


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"endpoint": Endpoint("https://x/orders/{order}", "GET")}, "another operation's record"),
        ({"endpoint": Endpoint(KEYED, "POST")}, 'key_header=""'),
        ({"bar": Bar(Endpoint(KEYED), (When(200),)), "authoritative": True}, 'key_header=""'),
        ({"bar": Bar(POSTED, (When(200),))}, "authoritative absence"),
        ({"bar": Bar(POSTED, ()), "authoritative": True}, "which answer confirms it"),
        (
            {"bar": Bar(Endpoint("https://x/", body=(), key_header=""), (When(200),)), "authoritative": True},
            "names the",
        ),
        ({"done": ()}, "which answers mean"),
        ({"receipt": ("colour",)}, "'colour'"),
    ],
    ids=["unbound", "post", "bar post", "bar without authority", "bar unconfirmed", "bar unbound", "done", "receipt"],
)
def test_a_reconciler_that_could_mistake_something_is_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        reconciler_at("https://x", **changed)


def test_it_may_be_bound_by_what_the_record_says() -> None:
    by_order = Endpoint("https://x/orders/{order}", "GET")
    assert reconciler_at("https://x", endpoint=by_order, match=(Match("reference", "operation_id"),))
