"""CAYU_OIDC_ROLES: which claims of the provider give which roles in which tenants.

    [{"claim": "groups", "value": "finance", "tenant": "acme", "role": "approver", "tier": 2, "tools": ["refund*"]}]

A rule holds when the claim is the value, or a list that has it. `claim` is a name, or a list of names that leads into
an object: ["realm_access", "roles"].
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings

from cayu_runtime.errors import InvalidRequest
from cayu_runtime.selectors.tenant import find_tenant

from ..models.membership import ROLES
from ..services.membership import Limits

log = structlog.get_logger(__name__)

FIELDS = frozenset({"claim", "value", "tenant", "role", "tier", "tools", "targets"})
NEEDED = ("claim", "value", "tenant", "role")
Wanted = dict[UUID, dict[str, Limits]]


@dataclass(frozen=True, slots=True)
class Rule:
    claim: tuple[str, ...]
    value: str
    tenant: str
    role: str
    limits: Limits

    def holds(self, claims: Mapping[str, Any]) -> bool:
        found: Any = claims
        for name in self.claim:
            found = found.get(name) if isinstance(found, Mapping) else None
        return self.value in found if isinstance(found, list) else found == self.value


def rules() -> tuple[list[Rule], list[str]]:
    """The rules that can be used, and a sentence for each that can't: unknown role, unusable limits, another form."""
    if not settings.CAYU_OIDC_ROLES.strip():
        return [], []
    try:
        listed = json.loads(settings.CAYU_OIDC_ROLES)
    except ValueError as problem:
        return [], [f"It is no JSON: {problem}."]
    if not isinstance(listed, list):
        return [], ["It is no list of rules."]
    usable, problems = [], []
    for number, rule in enumerate(listed, start=1):
        try:
            usable.append(_rule(rule))
        except InvalidRequest as problem:
            problems.append(f"Rule {number}: {problem.message}")
    return usable, problems


def wanted_roles(claims: Mapping[str, Any]) -> Wanted:
    """What these claims give, by tenant and role. An unknown tenant, or an unusable rule, gives nothing and is logged.

    Where several rules give one role in one tenant, the first of them says how far it reaches.
    """
    wanted: Wanted = {}
    usable, problems = rules()
    if problems:
        log.warning("oidc.rules_unusable", problems=len(problems), first=problems[0][:200])
    for rule in usable:
        if not rule.holds(claims):
            continue
        tenant = find_tenant(rule.tenant)
        if tenant is None:
            log.warning("oidc.tenant_unknown", tenant_slug=rule.tenant, role=rule.role)
            continue
        wanted.setdefault(tenant.id, {}).setdefault(rule.role, rule.limits)
    return wanted


def unknown_tenants() -> Iterator[str]:
    """The tenants that rules name and that do not exist."""
    for slug in sorted({rule.tenant for rule in rules()[0]}):
        if find_tenant(slug) is None:
            yield slug


def _rule(rule: Any) -> Rule:
    if not isinstance(rule, dict):
        raise InvalidRequest("It is no object.")
    unknown = sorted(set(rule) - FIELDS)
    if unknown:
        raise InvalidRequest(f"There is no {', '.join(unknown)}; a rule has: {', '.join(sorted(FIELDS))}.")
    missing = [name for name in NEEDED if not rule.get(name)]
    if missing:
        raise InvalidRequest(f"It lacks: {', '.join(missing)}.")
    claim = rule["claim"] if isinstance(rule["claim"], list) else [rule["claim"]]
    texts = [*claim, rule["value"], rule["tenant"], rule["role"], *_names(rule, "tools"), *_names(rule, "targets")]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidRequest("Claim, value, tenant, role, tools and targets are texts.")
    if rule["role"] not in ROLES:
        raise InvalidRequest(f"There is no role {rule['role']!r}. The roles are: {', '.join(ROLES)}.")
    limits = Limits(rule.get("tier", 1), tuple(_names(rule, "tools")), tuple(_names(rule, "targets")))
    return Rule(tuple(claim), rule["value"], rule["tenant"], rule["role"], limits.checked(rule["role"]))


def _names(rule: Mapping[str, Any], field: str) -> list[Any]:
    names = rule.get(field, [])
    if not isinstance(names, list):
        raise InvalidRequest(f"{field} is no list.")
    return names
