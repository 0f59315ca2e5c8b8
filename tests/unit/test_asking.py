"""What a tool of an application may ask a person: read as the docs say, bounded, or refused."""

import math
import re
from pathlib import Path
from typing import Any, cast

import pytest

from cayu_runtime import Agent, Ask, InvalidArguments, Tool, ToolEffect, ToolSpec
from cayu_runtime.contracts import PolicyDecision
from cayu_runtime.core.asking import asked
from cayu_runtime.core.judgement import ProposedCall, judge
from cayu_runtime.models import Session

PAGE = Path(__file__).resolve().parents[2] / "docs/questions.md"
DAY = 86400.0


class Asking(Tool):
    """Asks what the test says; an exception is raised."""

    spec = ToolSpec("asking", effect=ToolEffect.NONE, asks=True)

    def __init__(self, ask: Any) -> None:
        super().__init__()
        self.asks = ask

    def ask(self, args: dict[str, Any]) -> Ask:
        if isinstance(self.asks, Exception):
            raise self.asks
        return self.asks


@pytest.mark.parametrize(
    "given, seconds",
    [(None, 7 * DAY), (1, 1.0), (3600, 3600.0), (30 * DAY, 30 * DAY), (31 * DAY, 30 * DAY), (1e300, 30 * DAY)],
)
def test_there_is_always_a_time_limit_and_never_more_than_the_cap(given: float | None, seconds: float) -> None:  # A14
    assert asked(Asking(Ask("How much?", expires_in=given)), {}).expires_in == seconds


@pytest.mark.parametrize("given", [0, -1, 0.5, math.nan, math.inf, -math.inf])
def test_a_time_limit_that_is_none_is_refused(given: float) -> None:  # A14
    with pytest.raises(InvalidArguments, match="at least one second"):
        asked(Asking(Ask("How much?", expires_in=given)), {})


@pytest.mark.parametrize(
    "broken",
    [RuntimeError("down"), "How much?", None, Ask(cast("str", 7)), Ask("a?", cast("tuple[str]", (1, 2))),
     Ask("a?", cast("tuple[str]", "ab")), Ask("a?", expires_in=cast("float", "soon")), InvalidArguments("Not today.")],
    ids=["raises", "a text", "nothing", "a number", "numbers", "letters", "seconds", "refuses"],
)  # fmt: skip
def test_a_tool_that_asks_nothing_readable_blocks_its_call(broken: Any) -> None:
    agent = Agent(name="a", model="none", tools=(Asking(broken),))
    judged = judge(agent, Session(agent="a"), ProposedCall("c1", "asking", "{}"))
    assert judged.problem
    assert (judged.decision, judged.ask) == (PolicyDecision.DENY, None)


def test_only_a_tool_without_effect_and_without_secrets_asks() -> None:
    with pytest.raises(ValueError, match="only a tool without effect"):
        ToolSpec("asking", asks=True)
    secret = {"type": "object", "properties": {"key": {"type": "string", "x-secret": True}}}
    with pytest.raises(ValueError, match="can't hold a secret"):
        ToolSpec("asking", input_schema=secret, effect=ToolEffect.NONE, asks=True)


def test_the_page_s_own_tool_asks_as_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    found: dict[str, Any] = {}
    for block in blocks:
        exec(block, found)
    assert [tool.spec.name for tool in found["CLERK"].tools] == ["ask_user"]
    question = asked(found["ChooseCarrier"](), {"parcel": "p-1"})
    assert question == Ask("Who delivers p-1?", ("by road", "by air"), 3600.0)
