"""`manage.py recovery`: what is stuck is read and repaired at a shell, by a person with a role and a reason."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from cayu_runtime.models import EffectRecord, Session
from cayu_runtime.services.approval import decide_approval
from tests.web.office import Office

pytestmark = pytest.mark.django_db(transaction=True)
ATTENTION = 3


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def stuck(office: Office) -> Session:
    """Approved, and no worker has taken it."""
    session = office.ask()
    approval = office.approval(session)
    seen: dict[str, Any] = {"version": approval.version, "digest": bytes(approval.intent_digest).hex()}
    decide_approval(office.north, office.actor(office.alice, office.north), approval.pk, verdict="approve", **seen)
    return session


def run(*words: str, code: int = 0) -> str:
    """What it prints, when it ends with this exit code."""
    out = io.StringIO()
    if code:
        with pytest.raises(SystemExit) as ended:
            call_command("recovery", *words, stdout=out)
        assert ended.value.code == code
    else:
        call_command("recovery", *words, stdout=out)
    return out.getvalue()


def refused(*words: str) -> str:
    with pytest.raises(CommandError) as refusal:
        run(*words)
    return str(refusal.value)


SIGNED = ("--as", "alice", "--reason", "the machine burned")


def test_the_plan_prints_the_command_that_executes_exactly_it(stuck: Session) -> None:
    told = run("plan", stuck.session_id, "--tenant", "north", code=ATTENTION)
    assert "automatic_repair" in told
    (line,) = [line for line in told.splitlines() if line.startswith("manage.py recovery execute")]
    words = line.removeprefix("manage.py recovery ").removesuffix(" --as USERNAME --reason WHY").split()
    assert "1 settle_prepared" in run(*words, *SIGNED)
    assert "as recorded" in run(*words, *SIGNED)
    assert EffectRecord.objects.get(session=stuck).state == "abandoned"
    assert "nothing" not in run("plan", stuck.session_id, "--tenant", "north")


def test_it_speaks_json(stuck: Session) -> None:
    plan = json.loads(run("plan", stuck.session_id, "--all-tenants", "--json", code=ATTENTION))
    assert (plan["status"], plan["tenant"], plan["session_id"]) == ("automatic_repair", "north", stuck.session_id)
    done = json.loads(run("execute", stuck.session_id, plan["digest"], "--tenant", "north", *SIGNED, "--json"))
    assert (done["made"], done["by_name"], done["replay"]) == ({"settle_prepared": 1}, "alice", False)


def test_all_that_have_not_ended_are_listed_page_by_page(office: Office, stuck: Session) -> None:
    other = office.ask(("refund", {"order": "7"}))
    told = run("plan", "--tenant", "north", "--limit", "1", "--pages", "1", code=ATTENTION)
    assert stuck.session_id in told
    assert other.session_id not in told
    cursor = told.rpartition("--after ")[2].strip()
    rest = run("plan", "--tenant", "north", "--limit", "1", "--after", cursor, code=ATTENTION)
    assert other.session_id in rest
    assert stuck.session_id not in rest


def test_a_sweep_repairs_what_stood_still_long_enough(office: Office, stuck: Session) -> None:
    assert "0 sessions" in run("sweep", "--tenant", "north", *SIGNED)
    told = run("sweep", "--tenant", "north", "--settled", "0", *SIGNED)
    assert f"{stuck.session_id}  done: 1 settle_prepared" in told
    assert EffectRecord.objects.get(session=stuck).state == "abandoned"


def test_wrong_input_gets_a_sentence_and_changes_nothing(stuck: Session) -> None:
    digest = "ab" * 32
    assert "no session" in refused("plan", "nobody", "--tenant", "north")
    assert "--tenant" in refused("plan")
    assert "--as" in refused("execute", stuck.session_id, digest, "--tenant", "north")
    assert "nobody" in refused(
        "execute", stuck.session_id, digest, "--tenant", "north", "--as", "nobody", "--reason", "why"
    )
    assert "no cursor" in refused("plan", "--tenant", "north", "--after", "x")
    assert EffectRecord.objects.get(session=stuck).state == "authorized"


def test_who_may_not_is_refused_and_what_is_stale_is_said(office: Office, stuck: Session) -> None:
    viewer = ("--as", "bob", "--reason", "why")
    digest = json.loads(run("plan", stuck.session_id, "--tenant", "north", "--json", code=ATTENTION))["digest"]
    for words in (("execute", stuck.session_id, digest, *viewer), ("execute", stuck.session_id, "cd" * 32, *SIGNED)):
        with pytest.raises((SystemExit, CommandError)):
            run(*words, "--tenant", "north")
    assert EffectRecord.objects.get(session=stuck).state == "authorized"
