"""`ask_user`: the agent asks a person, and goes on with the answer, however many days later that comes."""

from __future__ import annotations

from typing import Any

from ..contracts import Ask, Tool, ToolEffect, ToolSpec
from ..contracts.question import MAX_ANSWER_SECONDS, MAX_CHOICE, MAX_CHOICES, MAX_QUESTION

HOUR = 3600


class AskUser(Tool):
    """Give it to an agent among its `tools`. The model's result is the answer, or that nobody gave one in time."""

    spec = ToolSpec(
        name="ask_user",
        description=(
            "Ask a person something that only a person can say, and wait for the answer. Ask one thing at a time, and "
            "say what you need it for. Give choices where the answer is one of a few."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION},
                "choices": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": MAX_CHOICE},
                    "minItems": 2,
                    "maxItems": MAX_CHOICES,
                    "uniqueItems": True,
                },
                "expires_in_hours": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": MAX_ANSWER_SECONDS / HOUR,
                    "description": "How long the answer is waited for; 168 (7 days) if not given.",
                },
            },
            "required": ["question"],
            "additionalProperties": False,
        },
        effect=ToolEffect.NONE,
        verb="Ask a person",
        asks=True,
    )

    def ask(self, args: dict[str, Any]) -> Ask:
        hours = args.get("expires_in_hours")
        return Ask(args["question"], tuple(args.get("choices", ())), None if hours is None else hours * HOUR)
