"""`manage.py effects`: the uncertain is listed, read and settled at a shell, by a person with a role and a reason."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from cayu_runtime import Finding, Observation
from cayu_runtime.models import Attempt, EffectRecord, Session
from tests.settling import Adapter
from tests.web.office import Office

pytestmark = pytest.mark.django_db(transaction=True)  # an adapter runs in its own thread
BARRED = Observation(Finding.ABSENT, "Not there, and never will be.", barred=True)


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def adapter(office: Office) -> Adapter:
    made = Adapter(Finding.CONFIRMED_DONE)
    office.refund.reconciler = made
    return made


@pytest.fixture
def effect(office: Office, adapter: Adapter) -> EffectRecord:
    return office.unknown()


def run(*words: Any, code: int = 0) -> str:
    """What it prints, when it ends with this exit code."""
    out = io.StringIO()
    if code:
        with pytest.raises(SystemExit) as ended:
            call_command("effects", *map(str, words), stdout=out)
        assert ended.value.code == code
    else:
        call_command("effects", *map(str, words), stdout=out)
    return out.getvalue()


def refused(*words: Any) -> str:
    with pytest.raises(CommandError) as refusal:
        run(*words)
    assert str(refusal.value).endswith(".")
    return str(refusal.value)


def seen(effect: EffectRecord) -> str:
    effect.refresh_from_db()
    return f"{effect.revision}:{effect.dispatch_id}"


def signed(effect: EffectRecord, **changed: str) -> list[str]:
    asked = {"--seen": seen(effect), "--as": "alice", "--reason": "customer called", **changed}
    return [word for name, value in asked.items() if value for word in (name, value)]


# ---- reading ----


def test_the_list_names_what_is_uncertain_in_one_tenant_or_in_all(effect: EffectRecord) -> None:
    for scope in (["--tenant", "north"], ["--all-tenants"]):
        line = run("list", *scope)
        assert line.startswith(f"{effect.pk}  north  outcome_unknown since ")
        assert "Refund order 1042" in line
    assert run("list", "--tenant", "south") == "Nothing is uncertain.\n"
    listed = json.loads(run("list", "--all-tenants", "--json"))
    assert (listed["more"], [row["id"] for row in listed["effects"]]) == (False, [str(effect.pk)])
    assert listed["effects"][0]["seen"] == seen(effect)


def test_the_list_says_when_it_was_cut(office: Office, effect: EffectRecord) -> None:
    other = office.unknown(("refund", {"order": "7"}))
    assert run("list", "--all-tenants", "--limit", 1).splitlines()[-1] == "There are more; raise --limit."
    assert str(other.pk) in run("list", "--all-tenants", "--limit", 2)
    assert "more" not in run("list", "--all-tenants", "--limit", 2)


def test_show_prints_what_a_request_repeats_and_a_copied_line_works(effect: EffectRecord) -> None:
    shown = run("show", effect.pk)
    assert shown.startswith("outcome_unknown: It was sent, and nobody knows")
    assert '{"order": "1042"}' in shown
    assert effect.idempotency_key not in shown
    (line,) = (line for line in shown.splitlines() if line.startswith("To ask the receiving system:"))
    words = line.partition("manage.py effects ")[2].replace("USERNAME", "alice").replace("TEXT", "called").split()
    assert "completed: It happened" in run(*words)


def test_show_as_json_is_what_the_api_shows_and_more(effect: EffectRecord) -> None:
    shown = json.loads(run("show", effect.pk, "--json"))
    assert (shown["id"], shown["revision"], shown["dispatch_id"]) == (
        str(effect.pk), effect.revision, str(effect.dispatch_id),
    )  # fmt: skip
    assert (shown["tenant"], shown["arguments"], shown["seen"]) == ("north", {"order": "1042"}, seen(effect))


# ---- settling ----


def test_a_lookup_settles_it_and_again_asks_nobody(office: Office, effect: EffectRecord, adapter: Adapter) -> None:
    words = ["lookup", effect.pk, *signed(effect)]
    assert run(*words).splitlines()[:2] == ["confirmed_done.", "completed: It happened; the receipt is on record."]
    assert run(*words).startswith("Asked before: confirmed_done.")
    assert len(adapter.asked) == 1
    assert office.run(effect.session).state == "completed"
    attempt = Attempt.objects.get(effect=effect, kind="lookup")
    assert (attempt.actor, attempt.reason) == (f"user:{office.alice.pk}", "customer called")


def test_what_stays_uncertain_ends_with_a_code_for_monitoring(effect: EffectRecord, adapter: Adapter) -> None:
    adapter.answers = [Finding.NOT_FOUND]
    said = json.loads(run("lookup", effect.pk, *signed(effect), "--json", code=3))
    assert (said["finding"], said["effect"]["state"], said["replay"]) == ("not_found", "outcome_unknown", False)


def test_a_barred_absence_says_what_it_permits(effect: EffectRecord, adapter: Adapter) -> None:
    adapter.answers = [BARRED]
    assert "Approving it once more sends it once more." in run("lookup", effect.pk, *signed(effect))


@pytest.mark.parametrize("by", ["file", "stdin"])
def test_a_receipt_comes_from_a_file_or_from_standard_input(
    effect: EffectRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    receipt = json.dumps({"operation": effect.operation_id, "tool_version": "1"})
    file = tmp_path / "receipt.json"
    file.write_text(receipt)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(receipt.encode())))
    run("receipt", effect.pk, file if by == "file" else "-", *signed(effect))
    effect.refresh_from_db()
    assert (effect.state, effect.receipt["source"]) == ("completed", "supplied")


def test_giving_up_ends_the_session_and_leaves_the_effect_in_doubt(effect: EffectRecord) -> None:
    said = run("abandon", effect.pk, *signed(effect, **{"--seen": ""}))
    assert "was given up; it is failed." in said
    effect.refresh_from_db()
    assert (effect.state, Session.objects.get(pk=effect.session_id).state) == ("outcome_unknown", "failed")
    assert "effects abandon" not in run("show", effect.pk)
    assert "completed: It happened" in run("lookup", effect.pk, *signed(effect))


# ---- wrong input ----


def test_a_request_must_say_what_was_seen(effect: EffectRecord) -> None:
    said = refused("lookup", effect.pk, *signed(effect, **{"--seen": ""}))
    assert f"run `manage.py effects show {effect.pk}`" in said
    assert "not REVISION:DISPATCH" in refused("lookup", effect.pk, *signed(effect, **{"--seen": "five"}))
    assert "Read it again" in refused("lookup", effect.pk, *signed(effect, **{"--seen": f"1:{effect.dispatch_id}"}))
    assert "Read it again" in refused("lookup", effect.pk, *signed(effect, **{"--seen": f"{effect.revision}:-"}))


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"--as": "nobody"}, "There is no person 'nobody'"),
        ({"--as": "Alice"}, "it is spelled 'alice'"),
        ({"--as": "bob"}, "needs the role reconciler or approver"),
        ({"--as": "carol"}, "no role in this tenant"),
        ({"--reason": "\u200b "}, "Say why"),
    ],
)
@pytest.mark.parametrize("action", ["lookup", "abandon"])
def test_who_may_not_or_does_not_say_why_is_refused(
    effect: EffectRecord, adapter: Adapter, action: str, changed: dict[str, str], says: str
) -> None:
    words = signed(effect, **changed)
    assert says in refused(action, effect.pk, *(words if action == "lookup" else words[2:]))
    effect.refresh_from_db()
    assert (adapter.asked, effect.session.state, effect.state) == ([], "interrupted", "outcome_unknown")


@pytest.mark.parametrize(
    "written, says",
    [
        ("receipt_id: 77", "This is not JSON"),
        ('["receipt_id"]', "one JSON object"),
        ('{"a": "' + "x" * 98_304 + '"}', "larger than 96 KiB"),
        ('{"a": 1, "a": 2}', "can't be used"),
        (None, "can't be read from"),
    ],
    ids=["text", "list", "large", "twice", "missing"],
)
def test_a_file_that_is_no_receipt_is_refused_unrecorded(
    effect: EffectRecord, tmp_path: Path, written: str | None, says: str
) -> None:
    file = tmp_path / "receipt.json"
    if written is not None:
        file.write_text(written)
    assert says in refused("receipt", effect.pk, file, *signed(effect))
    assert not Attempt.objects.filter(effect=effect, kind="receipt").exists()


def test_a_receipt_of_something_else_is_refused_with_a_sentence_or_a_code(effect: EffectRecord, tmp_path: Path) -> None:
    file = tmp_path / "receipt.json"
    file.write_text('{"operation": "another"}')
    words = ["receipt", effect.pk, file, *signed(effect)]
    assert "for another operation" in refused(*words)
    assert json.loads(run(*words, "--json", code=1))["error"]["code"] == "effect_conflict"


@pytest.mark.parametrize(
    "words, says",
    [
        (["show", "1042"], "is no id of an effect"),
        (["show", "01900000-0000-7000-8000-000000000000"], "There is no effect"),
        (["list"], "--tenant --all-tenants is required"),
        (["list", "--tenant", "nowhere"], "The tenants are: north, south"),
        (["list", "--all-tenants", "--limit", "0"], "--limit is a number of 1 or more"),
        (["list", "--all-tenants", "--limit", "9" * 30], "at most 10000"),
        (["lookup", "01900000-0000-7000-8000-000000000000", "--reason", "x"], "--as"),
        ([], "list|show|lookup|receipt|abandon"),
    ],
    ids=str,
)
def test_wrong_words_get_a_sentence(office: Office, words: list[str], says: str) -> None:
    with pytest.raises(CommandError) as refusal:
        run(*words)
    assert says in str(refusal.value)


def test_a_session_that_has_ended_is_not_given_up(office: Office, effect: EffectRecord) -> None:
    run("lookup", effect.pk, *signed(effect))
    office.run(effect.session)
    assert "nothing to give up" in refused("abandon", effect.pk, *signed(effect, **{"--seen": ""}))
