from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.db.models.functions import Now

from cayu_runtime import authority
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import InvalidRequest
from cayu_runtime.models import Tenant
from cayu_runtime.services.audit import Trail, audited, record

from ..models import Membership
from ..models.membership import LIMITED, MAX_TIER, ROLES
from ..selectors.membership import PERSON

MAX_NAMES, MAX_NAME = 50, 200
NAME = re.compile(r"[^\s\x00-\x1f*][^\x00-\x1f*]*\*?|\*")


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a role reaches. `tier` is an approver's (1 to 9); `tools` and `targets` are names, or beginnings that end
    in `*`, and empty means all; `valid_from` None means now, `valid_until` None means until it is taken.
    """

    tier: int = 1
    tools: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    valid_from: datetime | None = None
    valid_until: datetime | None = None

    def checked(self, role: str) -> Limits:
        """The same, tidied. InvalidRequest says what does not fit."""
        if isinstance(self.tier, bool) or not isinstance(self.tier, int) or not 1 <= self.tier <= MAX_TIER:
            raise InvalidRequest(f"A tier is a whole number from 1 to {MAX_TIER}.")
        if self.tier > 1 and role != "approver":
            raise InvalidRequest(f"Only an approver has a tier; the role {role!r} has none.")
        tools, targets = _names("tools", self.tools), _names("targets", self.targets)
        if (tools or targets) and role not in LIMITED:
            raise InvalidRequest(f"Only {' and '.join(LIMITED)} can be limited to tools and targets.")
        for moment in (self.valid_from, self.valid_until):
            if moment is not None and moment.tzinfo is None:
                raise InvalidRequest("Say the time zone of when the role begins or ends, like 2027-01-31T18:00Z.")
            if moment is not None and not 1 < moment.year < 9999:
                raise InvalidRequest("A role begins and ends in a year from 2 to 9998. For no end, leave it out.")
        if self.valid_from and self.valid_until and self.valid_until <= self.valid_from:
            raise InvalidRequest("The role would end before it begins.")
        return Limits(self.tier, tools, targets, self.valid_from, self.valid_until)

    def as_payload(self) -> dict[str, Any]:
        said: dict[str, Any] = {"tier": self.tier, "tools": list(self.tools), "targets": list(self.targets)}
        for name in ("valid_from", "valid_until"):
            moment: datetime | None = getattr(self, name)
            said[name] = moment.isoformat() if moment else None
        return {name: value for name, value in said.items() if value not in (None, [], 1)}


def _names(what: str, names: Iterable[str]) -> tuple[str, ...]:
    tidy = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if len(tidy) > MAX_NAMES:
        raise InvalidRequest(f"Give at most {MAX_NAMES} {what}.")
    for name in tidy:
        if len(name) > MAX_NAME or not NAME.fullmatch(name):
            raise InvalidRequest(
                f"{name[:60]!r} is no name among {what}: give a name, or its beginning and one * last."
            )
    return tidy


def limits_of(held: Membership) -> Limits:
    return Limits(held.tier, tuple(held.tools), tuple(held.targets), held.valid_from, held.valid_until)


def grant_role(
    user: AbstractBaseUser, tenant: Tenant, role: str, actor: Actor | None = None, limits: Limits | None = None
) -> bool:
    """Give a person a role in a tenant. True when it is new.

    A role already held is left as it is, or with `limits` gets these; one that is over begins anew. `actor` is who
    grants it; None is an operator at a shell. It goes on the tenant's audit chain. InvalidRequest for an unknown role,
    unusable limits, a role that would be over already, or an account that is switched off; NotPermitted by the
    authority.
    """
    if actor is not None:
        authority.require(actor, "grant_role", tenant)
    wanted = _checked(user, role, limits)
    with audited(tenant.pk) as trail:
        return _grant(trail, user, role, wanted, actor, change=limits is not None)


def _checked(user: AbstractBaseUser, role: str, limits: Limits | None) -> Limits:
    if role not in ROLES:
        raise InvalidRequest(f"There is no role {role!r}. The roles are: {', '.join(ROLES)}.")
    if not user.is_active:
        raise InvalidRequest(
            f"The account {user.get_username()!r} is switched off. Switch it on before giving it a role."
        )
    return (limits or Limits()).checked(role)


def _grant(
    trail: Trail,
    user: AbstractBaseUser,
    role: str,
    wanted: Limits,
    actor: Actor | None,
    *,
    change: bool,
    origin: str = "hand",
) -> bool:
    """Make or change the row under the tenant's lock, with its entry. True when it is new."""
    if wanted.valid_until is not None and wanted.valid_until <= (wanted.valid_from or trail.now):
        raise InvalidRequest("The role would be over before it begins.")
    held = Membership.objects.filter(user_id=user.pk, tenant=trail.tenant, role=role).first()
    if held is not None and held.is_over(trail.now):
        held.delete()
        held = None
    values: dict[str, Any] = {
        "tier": wanted.tier,
        "tools": list(wanted.tools),
        "targets": list(wanted.targets),
        "valid_until": wanted.valid_until,
    }
    said = {"person": f"{PERSON}{user.pk}", "person_name": user.get_username()[:150], "role": role, "origin": origin}
    if held is None:
        begins = wanted.valid_from or Now()
        Membership.objects.create(
            user_id=user.pk, tenant=trail.tenant, role=role, origin=origin, valid_from=begins, **values
        )
        trail.record("role.granted", actor, **said, **wanted.as_payload())
        return True
    if wanted.valid_from is not None:
        values["valid_from"] = wanted.valid_from
    if change and any(getattr(held, name) != value for name, value in values.items()):
        before = limits_of(held).as_payload()
        if values["valid_until"] is not None and values["valid_until"] <= values.get("valid_from", held.valid_from):
            raise InvalidRequest("The role would be over before it begins.")
        Membership.objects.filter(pk=held.pk).update(**values)
        trail.record("role.changed", actor, **said, before=before, after=wanted.as_payload())
    return False


def revoke_role(user: AbstractBaseUser, tenant: Tenant, role: str, actor: Actor | None = None) -> bool:
    """Take a role in a tenant from a person. True when they held it; it ends at once, also for open pages.

    `actor` is who takes it; None is an operator at a shell. It goes on the tenant's audit chain. NotPermitted by the
    authority.
    """
    if actor is not None:
        authority.require(actor, "revoke_role", tenant)
    with audited(tenant.pk) as trail:
        return _revoke(trail, user, role, actor)


def _revoke(trail: Trail, user: AbstractBaseUser, role: str, actor: Actor | None) -> bool:
    removed, _ = Membership.objects.filter(user_id=user.pk, tenant=trail.tenant, role=role).delete()
    if removed:
        person = {"person": f"{PERSON}{user.pk}", "person_name": user.get_username()[:150]}
        trail.record("role.revoked", actor, **person, role=role)
    return removed > 0


def record_account(user: AbstractBaseUser, kind: str, actor: Actor, **payload: Any) -> None:
    """Put what was done to an account on the chain of each tenant in which it was given a role."""
    tenants = Membership.objects.filter(user_id=user.pk).order_by("tenant").values_list("tenant", flat=True).distinct()
    person = {"person": f"{PERSON}{user.pk}", "person_name": user.get_username()[:150]}
    for tenant in tenants:
        record(tenant, kind, actor, **person, **payload)


def apply_claims(user: AbstractBaseUser, wanted: Mapping[UUID, Mapping[str, Limits]], actor: Actor) -> None:
    """Make the roles that an identity provider keeps for a person exactly `wanted` (tenant's id → role → limits).

    Roles given by hand stay as they are, and cover a claim of the same role. One tenant a transaction; each change goes
    on its chain under `actor`, who is the person signing in. InvalidRequest for an unknown role or unusable limits,
    before anything changes.
    """
    checked = {
        tenant: {role: _checked(user, role, one) for role, one in roles.items()} for tenant, roles in wanted.items()
    }
    kept = Membership.objects.filter(user_id=user.pk, origin="sign_in").values_list("tenant", flat=True)
    for tenant in sorted({*checked, *kept}):
        roles = checked.get(tenant, {})
        with audited(tenant) as trail:
            held = {row.role: row for row in Membership.objects.filter(user_id=user.pk, tenant=tenant)}
            for role, row in held.items():
                if row.origin == "sign_in" and role not in roles:
                    _revoke(trail, user, role, actor)
            for role, limits in roles.items():
                if role not in held or held[role].origin == "sign_in" or held[role].is_over(trail.now):
                    _grant(trail, user, role, limits, actor, change=True, origin="sign_in")
