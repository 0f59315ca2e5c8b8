"""Results of any size and kind: the effect is completed once, and what is too large for the row is kept beside it."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import pytest

from cayu_runtime import EffectNotPerformed, ToolEffect, ToolResult
from cayu_runtime.core import attachments
from cayu_runtime.core.results import MAX_CONTENT
from cayu_runtime.models import Attachment, EffectRecord, Session
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)

MIB = 1024 * 1024


def ran(machine: Machine, result: Any, **options: Any) -> tuple[Session, Counter]:
    """A session in which one allowed tool returned `result`."""
    tool = Counter(does=result if callable(result) else lambda ctx, args: result, **options)
    return machine.start(agent_of(tool, policy=Gate())), tool


def kept(session: Session) -> list[Attachment]:
    return list(Attachment.objects.filter(session=session).order_by("position"))


@pytest.mark.parametrize("effect", list(ToolEffect))
def test_a_result_of_20_mb_completes_once_and_is_kept_whole(machine: Machine, effect: ToolEffect) -> None:  # C13
    text = "0123456789abcdef" * (20 * MIB // 16)
    session, tool = ran(machine, ToolResult(text), effect=effect)
    assert (session.state, tool.count) == ("completed", 1)
    (call,) = machine.calls(session)
    (row,) = kept(session)
    assert call.state == "completed"
    assert (row.kind, row.name, row.size, row.call_id) == ("content", "content.txt", 20 * MIB, call.id)
    assert row.body.decode() == text
    assert row.sha256 == hashlib.sha256(text.encode()).digest()
    effects = EffectRecord.objects.filter(call=call)
    assert [e.state for e in effects] == ([] if effect is ToolEffect.NONE else ["completed"])
    assert [e.pk for e in effects] == ([] if effect is ToolEffect.NONE else [row.effect_id])
    said = call.result["content"]
    assert len(said) < MAX_CONTENT
    assert said.startswith(text[: attachments.EXCERPT])
    assert said.endswith(
        f"[Cut here: these are the first 32,768 of 20,971,520 characters. "
        f"All of it is kept as attachment {row.id} (20,971,520 bytes, SHA-256 {row.sha256.hex()}).]"
    )
    assert call.result["attachments"] == [
        {
            "attachment": str(row.id),
            "kind": "content",
            "name": "content.txt",
            "media_type": "text/plain; charset=utf-8",
            "size": 20 * MIB,
            "sha256": row.sha256.hex(),
        }
    ]
    told = machine.transcript(session)[-2]["parts"][0]["content"]
    assert told == call.result, "the model is told what stands on the call"


def test_large_structured_data_is_kept_as_json(machine: Machine) -> None:
    value = {"rows": [{"n": n, "name": f"row {n}", "odd": math.nan} for n in range(120_000)]}
    session, _ = ran(machine, ToolResult("done", value))
    (call,), (row,) = machine.calls(session), kept(session)
    parsed = json.loads(row.body)
    assert (row.kind, row.media_type, len(parsed["rows"])) == ("structured", "application/json", 120_000)
    assert parsed["rows"][-1] == {"n": 119_999, "name": "row 119999", "odd": {"$number": "nan"}}
    assert call.result["structured"]["$attachment"]["attachment"] == str(row.id)
    assert call.result["structured"]["excerpt"] == row.body.decode()[: attachments.EXCERPT_OF_JSON]


def test_artifacts_with_a_body_are_files(machine: Machine) -> None:
    artifacts = (
        {"name": "../../etc/re\u202eport\n.html", "media_type": "text/html", "body": "<script>", "page": 3},
        {"name": "picture.png", "body": b"\x89PNG\x00"},
        {"uri": "s3://bucket/key"},
    )
    session, _ = ran(machine, ToolResult("done", artifacts=artifacts))
    (call,), rows = machine.calls(session), kept(session)
    assert [(r.name, r.media_type, r.body) for r in rows] == [
        ("etcreport.html", "text/html", b"<script>"),
        ("picture.png", "application/octet-stream", b"\x89PNG\x00"),
    ]
    first, second, third = call.result["artifacts"]
    assert (first["page"], first["body"]["attachment"]) == (3, str(rows[0].id))
    assert second["body"]["sha256"] == rows[1].sha256.hex()
    assert third == {"uri": "s3://bucket/key"}


def test_many_artifacts_without_a_body_become_one_file(machine: Machine) -> None:
    session, _ = ran(machine, ToolResult("done", artifacts=tuple({"uri": f"s3://b/{n:050}"} for n in range(2000))))
    (call,), (row,) = machine.calls(session), kept(session)
    assert row.name == "artifacts.json"
    assert len(json.loads(row.body)) == 2000
    assert call.result["artifacts"][0]["$attachment"]["attachment"] == str(row.id)


def test_what_is_beyond_all_limits_is_named_by_size_and_digest(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_TOTAL", 10)
    monkeypatch.setattr(attachments, "MAX_COUNT", 2)
    bodies = (b"12345", b"1234567890", b"12345", b"")
    session, tool = ran(machine, ToolResult("done", artifacts=tuple({"body": body} for body in bodies)))
    (call,), rows = machine.calls(session), kept(session)
    assert (call.state, tool.count) == ("completed", 1)
    assert [row.body for row in rows] == [b"12345", b"12345"]
    references = [entry["body"] for entry in call.result["artifacts"]]
    assert [ref["attachment"] is not None for ref in references] == [True, False, True, False]
    assert references[1]["size"] == 10
    assert references[1]["sha256"] == hashlib.sha256(b"1234567890").hexdigest()


class Hostile(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("not for you")

    def __getitem__(self, name: str) -> Any:
        raise RuntimeError("not for you")

    def __contains__(self, name: object) -> bool:
        return True


@pytest.mark.parametrize(
    "result",
    [
        ToolResult("\0\ud800" * MAX_CONTENT),
        ToolResult("ok", {"x": "\0\ud800" * MAX_CONTENT}),
        ToolResult("ok", Hostile(body="x")),
        ToolResult("ok", artifacts=(Hostile(body="x"), {"body": object()}, {"body": "\ud800"}, "text", None)),  # type: ignore[arg-type]
        ToolResult("ok", {"x": [math.nan, 2**70, b"\xff", object()]}),
        ToolResult("ok", {"x": [0] * 130_000}),
    ],
    ids=["content", "structured", "hostile", "artifacts", "tagged", "many parts"],
)
def test_no_content_fails_a_settlement(machine: Machine, result: ToolResult) -> None:
    session, tool = ran(machine, result)
    (call,) = machine.calls(session)
    assert (session.state, call.state, machine.effect(session).state, tool.count) == (
        "completed", "completed", "completed", 1,
    )  # fmt: skip
    assert "$truncated" not in json.dumps(call.result)


def test_the_receipt_covers_every_byte_of_an_attachment(machine: Machine) -> None:
    digests = set()
    for last in "ab":
        session, _ = ran(machine, ToolResult("x" * MAX_CONTENT + last))
        digests.add((kept(session)[0].sha256, machine.effect(session).receipt_digest))
    assert len(digests) == 2


def test_the_key_is_taken_out_of_attachments(machine: Machine) -> None:
    session, _ = ran(machine, lambda ctx, args: ToolResult(ctx.idempotency_key + "x" * MAX_CONTENT))
    key = machine.effect(session).idempotency_key.encode()
    (row,) = kept(session)
    assert row.body.startswith(b"[idempotency key]xxx")
    assert key not in row.body


def test_a_small_result_makes_no_attachment(machine: Machine) -> None:
    session, _ = ran(machine, ToolResult("x" * MAX_CONTENT, {"a": 1}))
    assert kept(session) == []
    assert "attachments" not in machine.calls(session)[0].result


def test_an_error_of_any_size_is_kept_too(machine: Machine) -> None:
    def refuse(ctx: Any, args: Any) -> Any:
        raise EffectNotPerformed("no " * MAX_CONTENT)

    session, _ = ran(machine, refuse)
    assert machine.effect(session).state == "rejected"
    assert kept(session)[0].size == 3 * MAX_CONTENT
