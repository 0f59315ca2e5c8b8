"""`verify_tool_effect`: what is seen of a tool's run, against the effect that it declares."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cayu_runtime import EffectNotPerformed, InvalidArguments, Tool, ToolContext, ToolEffect, ToolResult, ToolSpec, tool
from cayu_runtime.testing import Bounds, EffectStatus, NotObserved, ObservationLimit, verify_tool_effect

Does = Callable[[Path], Any]


class Deed(Tool):
    def __init__(self, does: Does, effect: ToolEffect = ToolEffect.NONE) -> None:
        super().__init__(ToolSpec("deed", effect=effect))
        self.does = does

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        return ToolResult(str(self.does(ctx.require("workspace"))))


def test_a_none_tool_that_only_reads_is_consistent_and_the_evidence_says_what_nobody_watched():
    evidence = verify_tool_effect(
        Deed(lambda folder: (folder / "a/b.txt").read_text()), {}, files={"a/b.txt": b"42"}, not_watched=("the ledger",)
    )
    assert (evidence.status, evidence.did, evidence.content) == (EffectStatus.CONSISTENT, (), "42")
    assert "the ledger" in evidence.not_watched
    assert any("remote system" in one for one in evidence.not_watched)
    assert any("process that the tool started" in one for one in evidence.not_watched)


@pytest.mark.parametrize(
    "does, said",
    [
        (lambda folder: (folder / "new").write_text("x"), "created new"),
        (lambda folder: (folder / "old").write_text("y"), "updated old"),
        (lambda folder: (folder / "old").unlink(), "deleted old"),
    ],
)
def test_a_none_tool_that_changes_its_workspace_is_a_mismatch(does: Does, said: str):
    evidence = verify_tool_effect(Deed(does), {}, files={"old": b"x"})
    assert (evidence.status, evidence.did) == (EffectStatus.MISMATCH, (said,))


def test_a_none_tool_that_writes_elsewhere_is_a_mismatch(tmp_path: Path):
    evidence = verify_tool_effect(Deed(lambda _: (tmp_path / "log").write_text("x")), {})
    assert (evidence.status, evidence.outside) == (EffectStatus.MISMATCH, (str(tmp_path / "log"),))


def test_a_none_tool_that_writes_to_the_working_directory_is_a_mismatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    evidence = verify_tool_effect(Deed(lambda _: Path("log").write_text("x")), {})
    assert (evidence.status, evidence.outside) == (EffectStatus.MISMATCH, (str(tmp_path / "log"),))
    assert Path.cwd() == tmp_path


def test_a_none_tool_that_opens_a_connection_is_a_mismatch_also_from_a_thread_of_its_own():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def connect() -> None:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()

        def in_a_thread(_: Path) -> None:
            thread = threading.Thread(target=connect)
            thread.start()
            thread.join()

        for does in (lambda _: connect(), in_a_thread):
            evidence = verify_tool_effect(Deed(does), {})
            assert evidence.status is EffectStatus.MISMATCH
            assert evidence.connections == (f"127.0.0.1:{port}",)


def test_a_local_socket_counts_as_a_connection(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()

        def connect(_: Path) -> None:
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(tmp_path / "s"))

        assert verify_tool_effect(Deed(connect), {}).connections == (f"unix:{tmp_path / 's'}",)


def test_a_none_tool_that_starts_a_process_is_a_mismatch():
    evidence = verify_tool_effect(Deed(lambda _: subprocess.run(["true"], check=True)), {})
    assert (evidence.status, evidence.processes) == (EffectStatus.MISMATCH, ("true",))


def test_what_happens_before_and_after_is_not_the_tool_s(tmp_path: Path):
    (tmp_path / "before").write_text("x")
    evidence = verify_tool_effect(Deed(lambda _: "quiet"), {})
    (tmp_path / "after").write_text("x")
    assert evidence.status is EffectStatus.CONSISTENT
    assert evidence.outside == ()


@pytest.mark.parametrize("effect", [ToolEffect.IDEMPOTENT, ToolEffect.EXTERNAL])
def test_an_effectful_tool_runs_only_with_consent_once_and_is_observed(effect: ToolEffect):
    ran: list[Path] = []

    def write(folder: Path) -> None:
        ran.append(folder)
        (folder / "order").write_text("x")

    with pytest.raises(PermissionError, match=f"declares {effect.value}.*allow_effects=True"):
        verify_tool_effect(Deed(write, effect), {})
    assert ran == []
    evidence = verify_tool_effect(Deed(write, effect), {}, allow_effects=True)
    assert (evidence.status, evidence.created, len(ran)) == (EffectStatus.OBSERVED, ("order",), 1)
    assert not ran[0].exists()


def test_how_an_effectful_run_ended_is_part_of_the_evidence():
    def refuse(_: Path) -> None:
        raise EffectNotPerformed("The order is closed.")

    def fail(_: Path) -> None:
        raise ConnectionError("gone")

    refused = verify_tool_effect(Deed(refuse, ToolEffect.EXTERNAL), {}, allow_effects=True)
    assert (refused.ended, refused.content) == ("said that it did not act", "The order is closed.")
    assert verify_tool_effect(Deed(fail, ToolEffect.EXTERNAL), {}, allow_effects=True).ended == "raised: gone"


def test_a_none_tool_that_fails_before_it_did_anything_is_not_called_consistent():
    def fail(_: Path) -> None:
        raise RuntimeError("no such table")

    def write_and_fail(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise RuntimeError("no such table")

    with pytest.raises(NotObserved, match="no such table"):
        verify_tool_effect(Deed(fail), {})
    assert verify_tool_effect(Deed(write_and_fail), {}).status is EffectStatus.MISMATCH


def test_arguments_are_validated_and_made_effective_as_in_the_runtime():
    @tool(effect=ToolEffect.NONE)
    def add(a: int, b: int = 2) -> str:
        return str(a + b)

    assert verify_tool_effect(add, {"a": "40"}).content == "42"
    with pytest.raises(InvalidArguments, match="a: "):
        verify_tool_effect(add, {"a": "many"})


def test_an_async_tool_is_watched_too():
    @tool(effect=ToolEffect.NONE)
    async def note(ctx: ToolContext) -> str:
        (ctx.require("workspace") / "note").write_text("x")
        return "noted"

    assert verify_tool_effect(note, {}).created == ("note",)


def test_a_tool_that_does_not_end_in_time_gives_no_verdict():
    go_on = threading.Event()
    with pytest.raises(TimeoutError, match="no verdict"):
        verify_tool_effect(Deed(lambda _: go_on.wait(30)), {}, timeout=0.05)
    go_on.set()
    with pytest.raises(ValueError, match="timeout"):
        verify_tool_effect(Deed(lambda _: None), {}, timeout=0)


@pytest.mark.parametrize(
    "bounds, said",
    [
        (Bounds(entries=3), "more than 3 entries"),
        (Bounds(file_bytes=9), "has 10 bytes"),
        (Bounds(all_bytes=25), "all files so far 30"),
    ],
)
def test_more_than_can_be_looked_at_gives_no_verdict(bounds: Bounds, said: str):
    def fill(folder: Path) -> None:
        for n in range(4):
            (folder / f"{n}").write_text("0123456789")

    with pytest.raises(ObservationLimit, match=said):
        verify_tool_effect(Deed(fill), {}, bounds=bounds)


def test_files_lie_in_the_workspace_and_links_are_not_followed(tmp_path: Path):
    with pytest.raises(ValueError, match="does not lie in the workspace"):
        verify_tool_effect(Deed(lambda _: None), {}, files={"../out": b""})
    (tmp_path / "big").write_bytes(b"x" * 100)
    evidence = verify_tool_effect(
        Deed(lambda folder: (folder / "link").symlink_to(tmp_path / "big"), ToolEffect.EXTERNAL),
        {},
        allow_effects=True,
        bounds=Bounds(file_bytes=10),
    )
    assert evidence.created == ()


@pytest.mark.parametrize("awaits", [False, True], ids=["sync", "async"])
def test_a_tool_s_own_timeout_is_an_ending_and_not_the_end_of_its_time(awaits: bool):
    class Late(Tool):
        spec = ToolSpec("late", effect=ToolEffect.NONE)

        def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
            async def later() -> ToolResult:
                return self.act(ctx.require("workspace"))

            return later() if awaits else self.act(ctx.require("workspace"))

        def act(self, folder: Path) -> ToolResult:
            (folder / "half").write_text("x")
            raise TimeoutError("read timed out")

    evidence = verify_tool_effect(Late(), {}, timeout=30)
    assert (evidence.status, evidence.created) == (EffectStatus.MISMATCH, ("half",))
    assert evidence.ended == "timeout: read timed out"


def test_a_coroutine_that_does_not_end_in_time_has_no_verdict():
    class Hangs(Tool):
        spec = ToolSpec("hangs", effect=ToolEffect.NONE)

        async def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
            await asyncio.Event().wait()
            return ToolResult("never")

    with pytest.raises(TimeoutError, match=r"did not end within 0.05 seconds"):
        verify_tool_effect(Hangs(), {}, timeout=0.05)
