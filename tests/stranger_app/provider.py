"""A provider: the part of a model name after `stranger:` becomes a model. This one obeys `close ACCOUNT`."""

from __future__ import annotations

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from cayu_runtime.providers.rules import turn_of


def model(name: str) -> Model:
    """Raises ValueError for a name that this provider does not have."""
    if name != "obedient":
        raise ValueError(f"There is no model {name!r} here. The only one is 'obedient'.")
    return FunctionModel(_answer, model_name="stranger:obedient")


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    turn = turn_of(messages)
    account = turn.message.removeprefix("close ").strip()
    made = [outcome.tool for outcome in turn.outcomes]
    for tool in ("look_up", "close_account"):
        if tool not in made:
            return ModelResponse(parts=[ToolCallPart(tool, {"account": account}, tool_call_id=f"{tool}_1")])
    return ModelResponse(parts=[TextPart(turn.outcomes[-1].content)])
