"""`verify_audit` finds what was planted past every service, constraint and trigger, and nothing in what is whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, models

from cayu_runtime.management.audit import PAGE, Damage, anchor, chains, schema, ties
from cayu_runtime.models import AuditEntry, Decision, EffectRecord, Event, Message, Session, ToolCall
from cayu_runtime.services.session import abandon_session
from tests import rows
from tests.append_only import without_triggers
from tests.db.test_quarantine import ASK, BARRED, ask_all, restore
from tests.machine import Counter, Gate, Machine, agent_of
from tests.settling import Adapter, Downstream, unknown


def verify(machine: Machine, *options: str) -> tuple[int, list[tuple[str, str]]]:
    """Exit code, and each finding's kind and text."""
    out = StringIO()
    code = 0
    try:
        call_command("verify_audit", "--tenant", machine.tenant.slug, "--json", *options, stdout=out)
    except SystemExit as end:
        code = int(str(end.code))
    return code, [(one["kind"], one["what"]) for one in json.loads(out.getvalue())["damage"]]


def plant(*statements: str) -> None:
    """As somebody with the database's password would, the triggers being lifted for it."""
    with connection.cursor() as cursor:
        for statement in without_triggers(connection, list(statements)):
            cursor.execute(statement)
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL session_replication_role = DEFAULT")


def name(row: models.Model) -> str:
    """Its key as it stands in the database's text."""
    return f"'{row.pk.hex if isinstance(row.pk, UUID) and connection.vendor == 'sqlite' else row.pk}'"


@pytest.fixture
def busy(machine: Machine) -> Machine:
    """A tenant in which a bit of everything happened."""
    machine.start(agent_of(Counter(), policy=Gate()))
    for verdict in ("approve", "deny"):
        session = machine.start(agent_of(Counter(), policy=ASK))
        machine.decide(machine.approvals(session)[0], verdict)
        machine.run(session)
    machine.start(agent_of(Counter(), policy=ASK))
    session, _ = unknown(machine, Downstream(Adapter()))
    abandon_session(machine.tenant, machine.bob, session.session_id, reason="enough")
    unknown(machine, Downstream(Adapter()))
    return machine


def test_what_is_whole_is_found_whole(busy):
    assert verify(busy, "--attachments") == (0, [])


def test_after_a_quarantine_it_is_whole_too(machine):
    for answer in (BARRED, BARRED):
        machine.start(agent_of(Downstream(Adapter(answer)), policy=ASK))
    restore(machine)
    assert verify(machine) == (0, [])
    ask_all(machine)
    assert verify(machine) == (0, [])


def forged_payload(machine: Machine) -> str:
    event = Event.objects.filter(tenant=machine.tenant, type="session.started")[0]
    return f"UPDATE cayu_runtime_event SET payload = '{{\"v\":1}}' WHERE id = {event.pk}"


def missing_event(machine: Machine) -> str:
    event = Event.objects.filter(tenant=machine.tenant, seq=2)[0]
    return f"DELETE FROM cayu_runtime_event WHERE id = {event.pk}"


def cut_off(machine: Machine) -> str:
    event = Event.objects.filter(tenant=machine.tenant).order_by("-id")[0]
    return f"DELETE FROM cayu_runtime_event WHERE id = {event.pk}"


def forged_head(machine: Machine) -> str:
    session = Session.objects.filter(tenant=machine.tenant)[0]
    return f"UPDATE cayu_runtime_session SET last_seq = last_seq + 1 WHERE id = {name(session)}"


def lost_words(machine: Machine) -> str:
    message = Message.objects.filter(tenant=machine.tenant)[0]
    return f"DELETE FROM cayu_runtime_message WHERE id = {message.pk}"


def of_another_tenant(machine: Machine) -> str:
    call = ToolCall.objects.filter(tenant=machine.tenant)[0]
    return f"UPDATE cayu_runtime_toolcall SET tenant_id = {name(rows.tenant())} WHERE id = {name(call)}"


def taken_from_another_tenant(machine: Machine) -> str:
    other = rows.attempt("selected")
    return f"UPDATE cayu_runtime_attempt SET tenant_id = {name(machine.tenant)} WHERE id = {name(other)}"


def of_another_session(machine: Machine) -> str:
    effect = EffectRecord.objects.filter(tenant=machine.tenant)[0]
    other = Session.objects.filter(tenant=machine.tenant).exclude(pk=effect.session_id)[0]
    return f"UPDATE cayu_runtime_effectrecord SET session_id = {name(other)} WHERE id = {name(effect)}"


def changed_arguments(machine: Machine) -> str:
    call = ToolCall.objects.filter(tenant=machine.tenant, state="awaiting_approval")[0]
    return f"UPDATE cayu_runtime_toolcall SET arguments = '{{\"to\":\"me\"}}' WHERE id = {name(call)}"


def done_by_pen(machine: Machine) -> str:
    effect = EffectRecord.objects.filter(tenant=machine.tenant, state="outcome_unknown", abandoned_at=None)[0]
    return f"UPDATE cayu_runtime_effectrecord SET state = 'safe_to_retry' WHERE id = {name(effect)}"


def lost_effect(machine: Machine) -> str:
    call = ToolCall.objects.filter(tenant=machine.tenant, state="awaiting_approval")[0]
    return f"DELETE FROM cayu_runtime_effectrecord WHERE call_id = {name(call)}"


def another_receipt(machine: Machine) -> str:
    effect = EffectRecord.objects.filter(tenant=machine.tenant, state="completed")[0]
    return f"UPDATE cayu_runtime_effectrecord SET receipt = '{{\"digest\":\"00\"}}' WHERE id = {name(effect)}"


def settled_without_result(machine: Machine) -> str:
    call = ToolCall.objects.filter(tenant=machine.tenant, state="awaiting_approval")[0]
    now = "now()" if connection.vendor == "postgresql" else "'2026-01-01 00:00:00'"
    return f"UPDATE cayu_runtime_toolround SET state = 'settled', settled_at = {now} WHERE id = {name(call.round)}"


def permitted_by_a_denial(machine: Machine) -> str:
    decision = Decision.objects.filter(tenant=machine.tenant, verdict="approve")[0]
    return f"UPDATE cayu_runtime_decision SET verdict = 'deny' WHERE id = {name(decision)}"


PLANTED: list[tuple[Callable[[Machine], str], str, str]] = [
    (forged_payload, "event_chain", "is not what its hash was made of"),
    (missing_event, "event_chain", "Record 2 is missing"),
    (cut_off, "event_chain", "its row says"),
    (forged_head, "event_chain", "its row says"),
    (lost_words, "transcript", "its session counted"),
    (of_another_tenant, "tenant", "belongs to tenant"),
    (taken_from_another_tenant, "tenant", "belongs to tenant"),
    (of_another_session, "session", "another session"),
    (changed_arguments, "state", "not what was digested"),
    (done_by_pen, "state", "It is safe_to_retry, and its call is outcome_unknown"),
    (lost_effect, "state", "no effect is on record"),
    (another_receipt, "state", "receipt is not the one"),
    (settled_without_result, "state", "no result"),
    (permitted_by_a_denial, "state", "does not permit"),
]


@pytest.mark.parametrize("planted, kind, says", PLANTED, ids=[case[0].__name__ for case in PLANTED])
def test_what_is_planted_is_found(busy, planted, kind, says):
    plant(planted(busy))
    code, found = verify(busy)
    assert code == 2
    assert [text for one, text in found if one == kind and says in text], found


def test_a_chain_of_the_tenant_is_checked(machine):
    rows.audit_entry(tenant=machine.tenant)
    assert [kind for kind, _ in verify(machine)[1]] == ["audit_chain"]
    assert AuditEntry.objects.count() == 1


def test_more_sessions_than_a_page_are_all_looked_at(machine):
    made = [rows.session("completed", tenant=machine.tenant, last_seq=0) for _ in range(3)]
    page = chains.PAGE
    try:
        chains.PAGE = 2
        assert [one.pk for page in chains.session_pages(machine.tenant) for one in page] == [one.pk for one in made]
    finally:
        chains.PAGE = page
    assert page == PAGE


@pytest.mark.parametrize("table", ["event", "auditentry", "message", "decision", "attachment"])
def test_a_lifted_trigger_is_found(db, table):
    assert list(schema.trigger_problems()) == []
    one, table = ("cayu_append_only_row", f"cayu_runtime_{table}")
    with connection.cursor() as cursor:
        cursor.execute(
            f"DROP TRIGGER {one} ON {table}"
            if connection.vendor == "postgresql"
            else f"DROP TRIGGER cayu_append_only_update_{table}"
        )
    [problem] = schema.trigger_problems()
    assert problem.startswith(table)


@pytest.mark.postgres
def test_a_trigger_that_is_switched_off_or_made_harmless_is_found(db):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE cayu_runtime_event DISABLE TRIGGER cayu_append_only_all")
        assert [problem for problem in schema.trigger_problems() if "switched off" in problem]
        cursor.execute("ALTER TABLE cayu_runtime_event ENABLE TRIGGER cayu_append_only_all")
        assert list(schema.trigger_problems()) == []
        cursor.execute(
            "CREATE OR REPLACE FUNCTION cayu_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
        )
    assert len(list(schema.trigger_problems())) == 10


@pytest.mark.postgres
def test_a_constraint_that_is_gone_or_was_put_back_unchecked_is_found(db):
    table = "cayu_runtime_effectrecord"
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT effect_unknown_was_dispatched")
        assert [one.where for one in schema.schema_damage()] == [f"{table}.effect_unknown_was_dispatched"]
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT effect_unknown_was_dispatched CHECK (true) NOT VALID")
        assert ["never held" in one.what for one in schema.schema_damage()] == [True]


@pytest.mark.sqlite
def test_an_index_that_is_a_constraint_is_missed(db):
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX pause_unique")
    assert [one.where for one in schema.schema_damage()] == ["cayu_runtime_dispatchpause.pause_unique"]


@pytest.mark.sqlite
def test_a_broken_reference_is_found(machine):
    machine.start(agent_of(Counter(), policy=ASK))
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA defer_foreign_keys = ON")
        cursor.execute("UPDATE cayu_runtime_approval SET call_id = '00000000000000000000000000000000'")
        found = list(ties.reference_damage())
        cursor.execute("UPDATE cayu_runtime_approval SET call_id = (SELECT id FROM cayu_runtime_toolcall LIMIT 1)")
    assert [one.kind for one in found] == ["reference"]


def test_an_attachment_that_was_changed_is_found_where_it_is_asked_for(machine):
    row = rows.attachment(call=rows.call("completed", session=rows.session("completed", tenant=machine.tenant)))
    plant(f"UPDATE cayu_runtime_attachment SET size = 5 WHERE id = {name(row)}")
    assert [one.kind for one in ties.stored_damage(machine.tenant)] == ["attachment"]


# ---- the anchor ----


def compared(machine: Machine, file: Path) -> list[Damage]:
    return list(anchor.anchor_damage(file, [machine.tenant]))


def test_an_anchor_fits_what_went_on_since(busy, tmp_path):
    file = tmp_path / "anchor"
    out = StringIO()
    call_command("verify_audit", "--all-tenants", "--write-anchor", str(file), stdout=out)
    assert "Keep that file elsewhere" in out.getvalue()
    busy.start(agent_of(Counter(), policy=Gate()))
    abandon_session(busy.tenant, busy.bob, first_waiting(busy).session_id, reason="enough")
    assert verify(busy, "--anchor", str(file)) == (0, [])


def first_waiting(machine: Machine) -> Session:
    return Session.objects.filter(tenant=machine.tenant, interruption="approval_required").order_by("created_at")[0]


def went_back(machine: Machine, session: Session, last: Event, before: Event) -> list[str]:
    digest = before.hash.hex()
    value = f"'\\x{digest}'" if connection.vendor == "postgresql" else f"X'{digest}'"
    return [
        f"DELETE FROM cayu_runtime_event WHERE id = {last.pk}",
        f"UPDATE cayu_runtime_session SET last_seq = {before.seq}, last_hash = {value} WHERE id = {name(session)}",
    ]


def test_a_chain_that_was_cut_off_with_its_head_is_found_by_the_anchor_alone(busy, tmp_path):
    file = tmp_path / "anchor"
    anchor.write_anchor(file, [busy.tenant])
    session = first_waiting(busy)
    *_, before, last = Event.objects.filter(session=session).order_by("seq")
    plant(*went_back(busy, session, last, before))
    assert verify(busy) == (0, [])
    code, [(kind, what)] = verify(busy, "--anchor", str(file))
    assert (code, kind) == (2, "anchor")
    assert "went back" in what


def test_a_chain_with_another_past_is_found_by_the_anchor_alone(busy, tmp_path):
    """Written anew from the event that was changed on: every hash fits."""
    file = tmp_path / "anchor"
    anchor.write_anchor(file, [busy.tenant])
    session = first_waiting(busy)
    *_, before, last = Event.objects.filter(session=session).order_by("seq")
    plant(*went_back(busy, session, last, before))
    abandon_session(busy.tenant, busy.bob, session.session_id, reason="another past")
    assert verify(busy) == (0, [])
    assert ["another one" in one.what for one in compared(busy, file)] == [True]


def test_a_chain_that_is_gone_is_found(busy, tmp_path):
    file = tmp_path / "anchor"
    anchor.write_anchor(file, [busy.tenant])
    session = rows.session("completed", tenant=busy.tenant)
    anchor.write_anchor(file, [busy.tenant])
    session.delete()
    assert ["it is gone" in one.what for one in compared(busy, file)] == [True]


def test_an_anchor_that_is_not_whole_is_refused(busy, tmp_path):
    file = tmp_path / "anchor"
    anchor.write_anchor(file, [busy.tenant])
    lines = file.read_text().splitlines(keepends=True)
    for text in ("", "something else\n", "".join(lines[:-2]), "".join([*lines[:-2], lines[-1]]), lines[0]):
        file.write_text(text)
        with pytest.raises(CommandError):
            verify(busy, "--anchor", str(file))
    with pytest.raises(CommandError, match="can't be read"):
        verify(busy, "--anchor", str(tmp_path / "none"))


def test_no_anchor_is_written_of_what_is_damaged(busy, tmp_path):
    plant(cut_off(busy))
    file = tmp_path / "anchor"
    assert verify(busy, "--write-anchor", str(file))[0] == 2
    assert not file.exists()


def test_it_says_what_to_type(db):
    arguments: list[Any] = [["verify_audit"], ["verify_audit", "--tenant", "nobody"]]
    for words in arguments:
        with pytest.raises(CommandError):
            call_command(*words)
