"""An agent: the one module that is discovered, as `admin.py` is."""

from __future__ import annotations

from cayu_runtime import Agent

from .accounts import Accounts
from .close_account import CloseAccount
from .look_up import look_up
from .policy import ProtectAccounts

CLERK = Agent(
    name="stranger-clerk",
    model="stranger:obedient",
    instructions="Close accounts when asked.",
    tools=(look_up, CloseAccount()),
    policy=ProtectAccounts(protected="vip-"),
    resources={"accounts": Accounts()},
    description="Closes accounts.",
    example="close a-17",
)
