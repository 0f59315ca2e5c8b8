"""Authority: may this actor do that (DESIGN §8). The runtime asks; an application answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, as the door that let them in established it; never taken from a request body.

    `subject` is stable (`user:12`, `token:…`, `system:sweep`), `name` is for reading, `tenant` is the tenant's id,
    `source` the door (`web`, `api`, `shell`, `system`), `roles` those held at this moment.
    """

    subject: str
    name: str
    tenant: Any
    source: str
    roles: tuple[str, ...] = ()
    is_superuser: bool = False


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

    Actions and what they are about: `view` and `start_session` (the tenant), `interrupt_session` (the session),
    `abandon_session` (the session), `decide` and `revoke` (the approval), `answer` (the question), `reconcile` (the
    effect), `pause_dispatch` (the tenant, or None for the whole deployment), `audit`, `grant_role` and `revoke_role`
    (the tenant), `manage_people` (the tenant, or None for nobody's in particular), `manage_account` (the account).
    """

    def may(self, actor: Actor, action: str, obj: Any) -> Permit | Refusal: ...
