"""Authority: may this actor do that (DESIGN §8). The runtime asks; an application answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, as the door that let them in established it; never taken from a request body.

    `subject` is stable (`user:12`, `token:…`, `system:sweep`), `name` is for reading, `tenant` is the tenant's id,
    `source` the door (`web`, `api`, `shell`, `system`), `roles` those held at this moment. A token acts for a person:
    `on_behalf_of` is their subject, `on_behalf_of_name` their name, and what the token asks for, they asked.
    `authenticated_at` is when a person last proved who they are; None if nobody knows.
    """

    subject: str
    name: str
    tenant: Any
    source: str
    roles: tuple[str, ...] = ()
    is_superuser: bool = False
    on_behalf_of: str = ""
    on_behalf_of_name: str = ""
    authenticated_at: datetime | None = None

    @property
    def asks_for(self) -> str:
        """The subject whose request it is, and who by four eyes can't approve it."""
        return self.on_behalf_of or self.subject

    @property
    def asks_for_name(self) -> str:
        return self.on_behalf_of_name if self.on_behalf_of else self.name


SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Permit:
    """The actor may."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The actor may not. `code` is one of the API's stable codes, `reason` a whole sentence for a person."""

    code: str
    reason: str


class Authority(Protocol):
    """Named by `CAYU_AUTHORITY`. With none set everything is refused.

    Actions and what they are about: `view` and `start_session` (the tenant), `interrupt_session`, `continue_session`,
    `resume_session`, `record_proposal`, `recover_session` and `abandon_session` (the session), `decide`, `revoke` and
    `claim` (the approval), `answer` (the question), `reconcile` (the effect), `pause_dispatch` and `quarantine` (the
    tenant, or None for the whole deployment), `make_grant` and `revoke_grant` (the grant), `audit`, `limit_tenant`,
    `grant_role`, `revoke_role`, `create_token`, `revoke_token` (the tenant), `manage_people` (the tenant, or None for
    nobody's in particular), `manage_account` (the account).
    """

    def may(self, actor: Actor, action: str, obj: Any) -> Permit | Refusal: ...
