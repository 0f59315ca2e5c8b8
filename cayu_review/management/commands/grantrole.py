from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_review.models.membership import ROLES
from cayu_review.selectors import membership
from cayu_review.services.membership import Limits, grant_role
from cayu_runtime.errors import CayuError
from cayu_runtime.management import shell
from cayu_runtime.models import Tenant
from cayu_runtime.selectors.tenant import find_tenant


class Command(BaseCommand):
    help = (
        "Give a person a role in a tenant: viewer reads and starts sessions, approver also decides, reconciler settles "
        "uncertain effects, auditor reads every row in the admin, administrator manages people there. With a limit, a "
        "role that is held already gets it; --no-limits lifts them all. revokerole takes a role."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="the name the person signs in with")
        parser.add_argument("tenant", help="the tenant's slug, as given to createtenant")
        parser.add_argument("role", help=f"one of: {', '.join(ROLES)}")
        parser.add_argument("--tier", type=int, help="how high an approver is, 1 to 9; some requests need a higher one")
        parser.add_argument("--tool", action="append", metavar="NAME", help="only this tool; `pay*` means all of these")
        parser.add_argument("--target", action="append", metavar="NAME", help="only this target; likewise")
        parser.add_argument("--from", dest="valid_from", metavar="TIME", help="from when, like 2027-01-31T18:00Z")
        parser.add_argument("--until", dest="valid_until", metavar="TIME", help="until when")
        parser.add_argument("--no-limits", action="store_true", help="lift every limit of a role that is held already")

    def handle(self, *args: Any, **options: Any) -> None:
        user = find_person(options["username"])
        tenant = named_tenant(options["tenant"])
        limits = _limits(options)
        try:
            granted = grant_role(user, tenant, options["role"], limits=limits)
        except CayuError as error:
            raise CommandError(error.message) from None
        now = "is now" if granted else "was already"
        said = "" if limits is None or granted else " The limits are as given now."
        shell.tell(self, [f"{user.get_username()} {now} {options['role']} in {tenant.slug} ({tenant.name}).{said}"])


def _limits(options: dict[str, Any]) -> Limits | None:
    """None when none is asked for."""
    given = {name: options[name] for name in ("tier", "tool", "target", "valid_from", "valid_until")}
    asked = {name: value for name, value in given.items() if value is not None}
    if options["no_limits"]:
        if asked:
            raise CommandError("Either give limits, or lift all of them with --no-limits.")
        return Limits()
    if not asked:
        return None
    return Limits(
        tier=asked.get("tier", 1),
        tools=tuple(asked.get("tool", ())),
        targets=tuple(asked.get("target", ())),
        valid_from=_moment(asked.get("valid_from")),
        valid_until=_moment(asked.get("valid_until")),
    )


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{text!r} is no moment. Give it like 2027-01-31T18:00Z.") from None
    if moment.tzinfo is None:
        raise CommandError(f"{text!r} says no time zone. Add one, like 2027-01-31T18:00Z.")
    return moment


def find_person(username: str) -> AbstractBaseUser:
    """The account with this name. CommandError, with what may be meant, when there is none."""
    user = membership.find_person(username)
    if user is not None:
        return user
    model = get_user_model()
    near = model.objects.filter(**{f"{model.USERNAME_FIELD}__iexact": username}).first()
    if near is not None:
        raise CommandError(f"There is no person {username!r}; it is spelled {near.get_username()!r}.")
    raise CommandError(
        f"There is no person {username!r}. Make one: manage.py createsuperuser --username {username}, "
        "or in the admin under Users."
    )


def named_tenant(slug: str) -> Tenant:
    tenant = find_tenant(slug)
    if tenant is None:
        raise CommandError(f'There is no tenant {slug!r}. Make it: manage.py createtenant {slug} --name "Its name".')
    return tenant
