"""A class tool: acts once, under a person's approval."""

from __future__ import annotations

from typing import Any

from cayu_runtime import Tool, ToolContext, ToolEffect, ToolResult, ToolSpec

from .reconciler import AccountReconciler


class CloseAccount(Tool):
    spec = ToolSpec(
        name="close_account",
        description="Close a customer's account for good.",
        input_schema={
            "type": "object",
            "properties": {
                "account": {"type": "string", "minLength": 1, "maxLength": 40},
                "notify": {"type": "boolean", "default": True},
            },
            "required": ["account"],
            "additionalProperties": False,
        },
        effect=ToolEffect.EXTERNAL,
        version="1",
        verb="Close account",
        target="account",
    )
    reconciler = AccountReconciler()

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        ctx.require("accounts").close(args["account"], ctx.idempotency_key)
        return ToolResult(f"Closed {args['account']}.")
