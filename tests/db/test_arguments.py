"""Arguments as a provider passes them on: text, which is used exactly or not at all (C14)."""

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from cayu_runtime.core import model
from tests.machine import Counter, Gate, agent_of

ASK = Gate(move_money="require_approval")


def proposes_as_text(monkeypatch: pytest.MonkeyPatch, arguments: str) -> None:
    """The model's one call carries this text where its arguments belong, as a provider passes it on."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse([TextPart("So be it.")])
        return ModelResponse([ToolCallPart("move_money", arguments, tool_call_id="call_1")])

    monkeypatch.setattr(model, "_rule_model", lambda rule: FunctionModel(answer))


@pytest.mark.parametrize(
    "arguments",
    [
        '{"to": NaN}', '{"to": 1e400}', '{"to": "x", "n": 9007199254740992}', "[1]", "no json", '{"to": 1}',
        pytest.param('{"to": "x", "n": ' + "[" * 64 + "]" * 64 + "}", id="65 levels"),
        pytest.param('{"to": "x", "n": ' + "[" * 2000 + "]" * 2000 + "}", id="2,001 levels"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_used_are_told_to_the_model(machine, monkeypatch, arguments):  # C14
    tool = Counter()
    proposes_as_text(monkeypatch, arguments)
    session = machine.start(agent_of(tool, policy=ASK))
    assert (session.state, tool.count) == ("completed", 0)
    call = machine.calls(session)[0]
    assert (call.state, call.reason, call.result["executed"]) == ("blocked", "invalid", False)
    told = [
        part for body in machine.transcript(session) for part in body["parts"] if part["part_kind"] == "tool-return"
    ]
    assert [part["content"]["status"] for part in told] == ["blocked"]
    assert told[0]["content"]["reason"]


def test_arguments_as_text_that_can_be_used_are(machine, monkeypatch):  # C14, the other side
    tool = Counter()
    proposes_as_text(monkeypatch, '{"to": "x", "n": ' + "[" * 63 + "]" * 63 + "}")
    session = machine.start(agent_of(tool, policy=Gate()))
    assert (session.state, tool.count) == ("completed", 1)
