"""The events of a session are a gapless chain; the hashes are worked out here a second time, from the rows alone."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC
from typing import Any

import pytest

from cayu_runtime.core.transitions import MAX_PAYLOAD, new_session, transition
from cayu_runtime.models import Event, Session
from tests import rows

pytestmark = pytest.mark.django_db

GENESIS = bytes(32)


def say(session: Session, *kinds: str, **payload: Any) -> None:
    with transition(session.pk) as change:
        for kind in kinds:
            change.event(kind, **payload)


def chain(session: Session) -> list[Event]:
    return list(Event.objects.filter(session=session).order_by("seq"))


def hash_of(previous: bytes, event: Event) -> bytes:
    """SHA-256 over the previous hash and the canonical JSON of owner, seq, type, time and payload."""
    content = {
        "at": event.at.astimezone(UTC).isoformat(),
        "owner": str(event.session_id),
        "payload": event.payload,
        "seq": event.seq,
        "type": event.type,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(previous + text.encode()).digest()


def recomputed(events: list[Event]) -> list[bytes]:
    hashes, previous = [], GENESIS
    for event in events:
        previous = hash_of(previous, event)
        hashes.append(previous)
    return hashes


def is_whole(session: Session) -> bool:
    session.refresh_from_db()
    events = chain(session)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.hash for event in events] == recomputed(events)
    head = (events[-1].seq, events[-1].hash) if events else (0, GENESIS)
    assert (session.last_seq, session.last_hash) == head
    assert {event.tenant_id for event in events} <= {session.tenant_id}
    return True


def test_a_session_without_events_has_an_empty_chain() -> None:
    session = rows.session()
    assert is_whole(session)
    assert session.last_seq == 0


def test_the_chain_begins_with_the_session() -> None:
    session = rows.session("pending", save=False)
    with new_session(session) as change:
        change.event("session.started", by="user:alice")
    assert is_whole(session)
    assert [event.type for event in chain(session)] == ["session.started"]


def test_events_of_one_transition_and_of_many_form_one_chain() -> None:
    session = rows.session()
    say(session, "one")
    say(session, "two", "three", "four")
    say(session, "five", number=5, text="Ünïcode 漢字 🙂", nested={"b": [1, None, True], "a": {}})
    assert is_whole(session)
    assert [event.type for event in chain(session)] == ["one", "two", "three", "four", "five"]
    assert chain(session)[-1].payload["text"] == "Ünïcode 漢字 🙂"


def test_each_hash_binds_all_that_came_before() -> None:
    session = rows.session()
    say(session, "one", "two", "three")
    assert is_whole(session)
    assert len({event.hash for event in chain(session)}) == 3
    true = [event.hash for event in chain(session)]
    forgeries = {"type": "forged", "seq": 9, "payload": {"v": 1, "more": 1}, "at": rows.LATER}
    forgeries["session_id"] = rows.session().pk
    for field, value in forgeries.items():
        forged = chain(session)
        setattr(forged[0], field, value)
        assert not set(true) & set(recomputed(forged)), field


def test_two_interleaved_sessions_have_a_chain_each() -> None:
    alices, bobs = rows.session(), rows.session()
    for n in range(4):
        say(alices, "alice", n=n)
        say(bobs, "bob", "bob again", n=n)
    assert is_whole(alices)
    assert is_whole(bobs)
    assert len(chain(alices)) == 4
    assert len(chain(bobs)) == 8
    assert not {event.hash for event in chain(alices)} & {event.hash for event in chain(bobs)}


def test_equal_events_of_two_sessions_have_different_hashes() -> None:
    first, second = rows.session(), rows.session()
    say(first, "same")
    say(second, "same")
    assert chain(first)[0].hash != chain(second)[0].hash


def test_a_transition_that_raises_leaves_no_gap() -> None:
    session = rows.session()
    say(session, "one")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), transition(session.pk) as change:
            change.event(f"never {1 // len([])}")
    with pytest.raises(RuntimeError):
        fail_after_events(session)
    say(session, "two")
    assert is_whole(session)
    assert [event.type for event in chain(session)] == ["one", "two"]


def fail_after_events(session: Session) -> None:
    with transition(session.pk) as change:
        change.event("never")
        change.event("never either")
        raise RuntimeError


def test_an_event_of_a_call_names_it() -> None:
    call = rows.call("prepared")
    with transition(call.session_id) as change:
        change.event("tool.call.started", call=call, replayed=False)
    event = chain(call.session)[0]
    assert event.payload == {
        "v": 1, "call": str(call.pk), "call_id": call.call_id, "tool": "refund", "replayed": False,
    }  # fmt: skip
    assert is_whole(call.session)


def test_a_payload_is_bounded_and_says_so() -> None:
    call = rows.call("prepared")
    with transition(call.session_id) as change:
        change.event("tool.call.failed", call=call, message="x" * (2 * MAX_PAYLOAD))
        change.event("tool.call.failed", call=call, message="x" * (MAX_PAYLOAD - 1000))
    cut, whole = chain(call.session)
    assert cut.payload == {"v": 1, "call": str(call.pk), "$truncated": "payload over 16 KiB"}
    assert len(whole.payload["message"]) == MAX_PAYLOAD - 1000
    assert is_whole(call.session)


def test_what_json_cannot_say_is_tagged_and_the_chain_holds() -> None:
    session = rows.session()
    say(session, "odd", nul="a\0b", half="\ud800", huge=2**80, nan=float("nan"), data=b"\x00\xff", items={1})
    say(session, "next")
    payload = chain(session)[0].payload
    assert payload["nul"] == {"$text": "a\\u0000b"}
    assert payload["huge"] == {"$number": str(2**80)}
    assert payload["nan"] == {"$number": "nan"}
    assert is_whole(session)
