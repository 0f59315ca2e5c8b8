"""`record_proposal`: how an agent puts on record what it wants to do, one round before it asks to do it (DESIGN §5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import rfc8785

from cayu_runtime import (
    Finding,
    Inquiry,
    InvalidArguments,
    Observation,
    Reconciler,
    Tool,
    ToolContext,
    ToolEffect,
    ToolResult,
    ToolSpec,
)
from cayu_runtime.contracts.secret import MARK
from cayu_runtime.errors import Conflict, InvalidRequest
from cayu_runtime.models import Proposal
from cayu_runtime.models.proposal import MAX_FIELDS
from cayu_runtime.selectors.proposal import find_proposal

RESOURCE = "record_proposal"
SECRET = (MARK, "writeOnly")


class ProposalsOnRecord(Reconciler):
    """Whether a proposal is on record. What is not there will not come: it is written under the lease of the session,
    and whoever was to write it has lost that.
    """

    def lookup(self, inquiry: Inquiry) -> Observation:
        action = str(inquiry.arguments.get("action_id", ""))
        found = find_proposal(UUID(inquiry.tenant), inquiry.session_id, action)
        if found is None:
            return Observation(Finding.ABSENT, f"This session has no proposal {action} on record.", barred=True)
        if rfc8785.dumps(found.fields) != rfc8785.dumps(dict(inquiry.arguments)):
            return Observation(Finding.CONFLICT, f"The proposal {action} on record has other fields.")
        return Observation(Finding.CONFIRMED_DONE, f"Proposal {action} is on record.", _told(found))


class RecordProposal(Tool):
    """Records the arguments of one action for review. Made for one action and one vocabulary.

    `fields` is the JSON Schema of what may be proposed: the arguments of `action`, no more and no fewer, `action_id`
    among them; by default the action's own schema. What lies outside of it is refused before anything runs. ValueError
    at construction says what is wrong with it: open to other fields, or with a field that holds a secret.

    The agent gives it the capability to record: `resources={"record_proposal": record_proposal}`, the service.
    `expires_in` (seconds) is how long the action may be asked for, 7 days by default and 30 at most.
    """

    def __init__(
        self,
        action: Tool,
        fields: Mapping[str, Any] | None = None,
        *,
        name: str = "record_proposal",
        description: str = "",
        expires_in: float | None = None,
        version: str = "1",
    ) -> None:
        schema = action.schema if fields is None else fields
        _refuse_unusable(action, schema)
        words = f"Record a proposed {action.spec.name} for review. Ask for {action.spec.name} itself in a later step."
        super().__init__(
            ToolSpec(
                name,
                description or words,
                schema,
                ToolEffect.IDEMPOTENT,
                version,
                parallel_safe=False,
                verb="Record proposal",
                target="action_id",
                requires=(RESOURCE,),
            )
        )
        self.action = action
        self.expires_in = expires_in
        self.reconciler = ProposalsOnRecord()

    def coerce(self, args: dict[str, Any]) -> dict[str, Any]:
        """What the action itself would get, so that the record and the call can be compared exactly."""
        effective = self.action.coerce(super().coerce(args))
        size = len(rfc8785.dumps(effective))
        if size > MAX_FIELDS:
            raise InvalidArguments(f"A proposal has at most {MAX_FIELDS} bytes; this one has {size}. Shorten it.")
        return effective

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        record = ctx.require(RESOURCE)
        try:
            recorded = record(ctx, tool=self.action.spec.name, fields=args, expires_in=self.expires_in)
        except (InvalidRequest, Conflict) as refusal:
            said = {"recorded": False, "code": refusal.code}
            return ToolResult(content=refusal.message, structured=said, is_error=True)
        return _told(recorded.proposal)


def _told(proposal: Proposal) -> ToolResult:
    return ToolResult(
        content=f"Proposal {proposal.action_id} is on record, and {proposal.state}.",
        structured={
            "recorded": True,
            "state": proposal.state,
            "fields": proposal.fields,
            "digest": proposal.fields_digest.hex(),
            "expires_at": proposal.expires_at.isoformat(),
        },
    )


def _refuse_unusable(action: Tool, schema: Mapping[str, Any]) -> None:
    name = action.spec.name
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise ValueError(f"Proposals for {name!r}: the fields' schema must be of type object, with properties.")
    if schema.get("additionalProperties") is not False:
        raise ValueError(f'Proposals for {name!r}: set "additionalProperties" to false; a review has no other fields.')
    if "action_id" not in properties or "action_id" not in schema.get("required", ()):
        raise ValueError(f"Proposals for {name!r}: action_id must be a required field; it names the action.")
    arguments = set(action.schema.get("properties", {}))
    if set(properties) != arguments:
        odd = sorted(set(properties) ^ arguments)[0]
        raise ValueError(
            f"Proposals for {name!r}: {odd!r} is a field or an argument, not both. All arguments are reviewed."
        )
    for schemas in (schema, action.schema):
        secret = next(_secrets(schemas), None)
        if secret is not None:
            raise ValueError(f"Proposals for {name!r}: {secret!r} is marked secret. What is reviewed holds no secret.")


def _secrets(schema: Any, name: str = "") -> Iterator[str]:
    """The names of what a schema marks as secret, at any depth."""
    if isinstance(schema, Mapping):
        if any(schema.get(mark) is True for mark in SECRET) or schema.get("format") == "password":
            yield name
        for key, part in schema.items():
            yield from _secrets(part, str(key))
    elif isinstance(schema, (list, tuple)):
        for part in schema:
            yield from _secrets(part, name)
