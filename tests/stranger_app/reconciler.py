"""A reconciler: what became of a closing, asked at the accounts by the operation's own key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cayu_runtime import Finding, Inquiry, Observation, Reconciler, ToolResult


class AccountReconciler(Reconciler):
    """Reads, never closes. The accounts are one file, written once: what does not stand there did not happen so far."""

    def lookup(self, inquiry: Inquiry) -> Observation:
        try:
            closing = inquiry.require("accounts").closed_under(inquiry.idempotency_key)
        except (OSError, ValueError) as error:
            return Observation(Finding.UNAVAILABLE, f"The accounts can't be read ({type(error).__name__}).")
        if closing is None:
            return Observation(Finding.ABSENT, "Nothing was closed for this operation so far.")
        account = inquiry.arguments["account"]
        if closing["account"] != account:
            return Observation(Finding.CONFLICT, "Another account was closed under this operation's key.")
        done = ToolResult(f"Closed {account}.")
        return Observation(Finding.CONFIRMED_DONE, f"Account {account} is closed.", done, evidence={"account": account})

    def validate_receipt(self, receipt: Mapping[str, Any], inquiry: Inquiry) -> Observation:
        """A receipt names the account; what counts is what the accounts say themselves."""
        found = self.lookup(inquiry)
        if found.finding is Finding.CONFIRMED_DONE and receipt.get("account") != inquiry.arguments["account"]:
            return Observation(Finding.CONFLICT, "The receipt is for another account.")
        return found
