"""How far a role reaches, and when; what an identity provider claims; the database refuses what makes no sense."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.utils import timezone

from cayu_review.models import Membership
from cayu_review.permissions import MembershipAuthority
from cayu_review.selectors.membership import held_in, is_of_tenant_alone, memberships_of, roles_of
from cayu_review.services.membership import Limits, apply_claims, grant_role, revoke_role
from cayu_runtime.contracts import Actor, Permit
from cayu_runtime.errors import InvalidRequest
from cayu_runtime.models import Approval, AuditEntry, Tenant
from cayu_runtime.services.tenant import create_tenant

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def north(db: None) -> Tenant:
    return create_tenant("north", "North Ltd")


@pytest.fixture
def south(db: None) -> Tenant:
    return create_tenant("south", "South Ltd")


@pytest.fixture
def alice(db: None) -> User:
    return User.objects.create_user("alice")


def subject(user: User) -> str:
    return f"user:{user.pk}"


def told(tenant: Tenant) -> list[tuple[str, str]]:
    entries = AuditEntry.objects.filter(tenant=tenant).order_by("seq")
    return [(entry.type, entry.payload.get("role", "")) for entry in entries]


def test_a_role_counts_from_its_beginning_until_its_end(alice: User, north: Tenant) -> None:
    grant_role(alice, north, "approver", limits=Limits(valid_from=timezone.now() + HOUR))
    assert (roles_of(north.id, subject(alice)), memberships_of(alice)) == (frozenset(), [])
    assert is_of_tenant_alone(alice, north.id)
    Membership.objects.update(valid_from=timezone.now() - 2 * HOUR, valid_until=timezone.now() + HOUR)
    assert roles_of(north.id, subject(alice)) == {"approver"}
    Membership.objects.update(valid_until=timezone.now() - HOUR)
    assert roles_of(north.id, subject(alice)) == frozenset()
    approval = Approval(tenant=north, requester="user:0", four_eyes=True, tool="refund", target="7")
    who = Actor(subject(alice), "alice", north.id, "web", roles=("approver",))
    assert not isinstance(MembershipAuthority().may(who, "decide", approval), Permit)


def test_a_role_that_is_over_can_be_given_again(alice: User, north: Tenant) -> None:
    grant_role(alice, north, "viewer")
    Membership.objects.update(valid_from=timezone.now() - 2 * HOUR, valid_until=timezone.now() - HOUR)
    assert grant_role(alice, north, "viewer") is True
    assert roles_of(north.id, subject(alice)) == {"viewer"}


def test_limits_are_changed_without_a_second_role_and_stand_on_the_chain(alice: User, north: Tenant) -> None:
    assert grant_role(alice, north, "approver") is True
    assert grant_role(alice, north, "approver", limits=Limits(3, ("refund", "refund", " "), ("orders/*",))) is False
    held = held_in(north.id, subject(alice))["approver"]
    assert (held.tier, held.tools, held.targets) == (3, ["refund"], ["orders/*"])
    assert held.covers("refund", "orders/7")
    assert not held.covers("pay", "orders/7")
    grant_role(alice, north, "approver")
    assert held_in(north.id, subject(alice))["approver"].tier == 3
    revoke_role(alice, north, "approver")
    assert revoke_role(alice, north, "approver") is False
    assert told(north) == [("role.granted", "approver"), ("role.changed", "approver"), ("role.revoked", "approver")]
    changed = AuditEntry.objects.get(type="role.changed")
    assert changed.payload["before"] == {"valid_from": changed.payload["before"]["valid_from"]}
    assert changed.payload["after"] == {"tier": 3, "tools": ["refund"], "targets": ["orders/*"]}
    call_command("verify_audit", "--tenant", "north", stdout=StringIO())


@pytest.mark.parametrize(
    "role, limits, said",
    [
        ("approver", Limits(tier=0), "from 1 to 9"),
        ("approver", Limits(tier=10), "from 1 to 9"),
        ("viewer", Limits(tier=2), "Only an approver has a tier"),
        ("auditor", Limits(tools=("pay",)), "Only approver and reconciler can be limited"),
        ("approver", Limits(tools=("p*y",)), r"one \* last"),
        ("approver", Limits(targets=("a\0b",)), "is no name among targets"),
        ("approver", Limits(tools=tuple(f"t{n}" for n in range(51))), "at most 50"),
        ("viewer", Limits(valid_until=timezone.now() - HOUR), "over before it begins"),
        ("viewer", Limits(valid_from=timezone.now() + HOUR, valid_until=timezone.now()), "end before it begins"),
        ("viewer", Limits(valid_until=timezone.now().replace(tzinfo=None)), "time zone"),
    ],
)
def test_limits_that_make_no_sense_are_refused_in_words(
    alice: User, north: Tenant, role: str, limits: Limits, said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        grant_role(alice, north, role, limits=limits)
    assert not Membership.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    "values, constraint",
    [
        ({"role": "approver", "tier": 0}, "membership_tier_sound"),
        ({"role": "approver", "tier": 10}, "membership_tier_sound"),
        ({"role": "viewer", "tier": 2}, "membership_tier_sound"),
        ({"role": "viewer", "tools": ["pay"]}, "membership_limits_sound"),
        ({"role": "administrator", "targets": ["7"]}, "membership_limits_sound"),
        ({"role": "viewer", "origin": "rumour"}, "membership_origin_known"),
        ({"role": "viewer", "valid_until": timezone.now() - HOUR}, "membership_has_time"),
    ],
)
def test_the_database_refuses_them_too(alice: User, north: Tenant, values: dict[str, Any], constraint: str) -> None:
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Membership.objects.create(user=alice, tenant=north, **values)


def test_claims_give_and_take_what_the_provider_keeps_and_nothing_else(
    alice: User, north: Tenant, south: Tenant
) -> None:
    who = Actor(subject(alice), "alice", north.id, "web")
    grant_role(alice, north, "auditor")
    apply_claims(alice, {north.id: {"approver": Limits(2), "auditor": Limits()}, south.id: {"viewer": Limits()}}, who)
    assert roles_of(north.id, subject(alice)) == {"auditor", "approver"}
    assert roles_of(south.id, subject(alice)) == {"viewer"}
    apply_claims(alice, {north.id: {"approver": Limits(3)}}, who)
    assert roles_of(south.id, subject(alice)) == frozenset()
    assert held_in(north.id, subject(alice))["approver"].tier == 3
    apply_claims(alice, {}, who)
    assert roles_of(north.id, subject(alice)) == {"auditor"}
    assert told(south) == [("role.granted", "viewer"), ("role.revoked", "viewer")]
    with pytest.raises(InvalidRequest, match="no role 'king'"):
        apply_claims(alice, {south.id: {"viewer": Limits()}, north.id: {"king": Limits()}}, who)
    assert roles_of(south.id, subject(alice)) == frozenset()


def run(command: str, *arguments: str) -> str:
    out = StringIO()
    call_command(command, *arguments, stdout=out)
    return out.getvalue()


def test_the_commands_give_limits_and_take_roles(alice: User, north: Tenant) -> None:
    said = run(
        "grantrole", "alice", "north", "approver", "--tier", "2", "--tool", "pay*", "--until", "2999-01-31T18:00Z"
    )
    assert said == "alice is now approver in north (North Ltd).\n"
    held = held_in(north.id, subject(alice))["approver"]
    assert (held.tier, held.tools, held.valid_until.year if held.valid_until else 0) == (2, ["pay*"], 2999)
    assert "limits are as given now" in run("grantrole", "alice", "north", "approver", "--no-limits")
    assert not held_in(north.id, subject(alice))["approver"].is_limited
    assert run("revokerole", "alice", "north", "approver") == "alice is approver in north (North Ltd) no more.\n"
    for arguments, wrong in (
        (("revokerole", "alice", "north", "approver"), "nothing changed"),
        (("grantrole", "alice", "north", "viewer", "--until", "soon"), "is no moment"),
        (("grantrole", "alice", "north", "viewer", "--until", "2999-01-31"), "no time zone"),
        (("grantrole", "alice", "north", "approver", "--tier", "2", "--no-limits"), "Either give limits"),
    ):
        with pytest.raises(CommandError, match=wrong):
            run(*arguments)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_that_utc_does_not_have_is_a_sentence(alice: User, north: Tenant, moment: str) -> None:
    for option in ("--from", "--until"):
        with pytest.raises(CommandError, match="begins and ends in a year"):
            call_command("grantrole", "alice", "north", "approver", option, moment)
    assert not Membership.objects.exists()
