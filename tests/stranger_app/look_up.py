"""A function tool: reads, and changes nothing."""

from __future__ import annotations

from cayu_runtime import ToolContext, ToolEffect, tool


@tool(effect=ToolEffect.NONE, verb="Look up account", target="account")
def look_up(ctx: ToolContext, account: str) -> str:
    """Say whether an account is open."""
    closed = any(closing["account"] == account for closing in ctx.require("accounts").closings())
    return "closed" if closed else "open"
