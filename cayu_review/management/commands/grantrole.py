from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_review.models.membership import ROLES
from cayu_review.services.membership import grant_role
from cayu_runtime.errors import CayuError
from cayu_runtime.management import shell
from cayu_runtime.models import Tenant
from cayu_runtime.selectors.tenant import find_tenant


class Command(BaseCommand):
    help = (
        "Give a person a role in a tenant: viewer reads and starts sessions, approver also decides, "
        "auditor reads every row in the admin, administrator manages people there."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="the name the person signs in with")
        parser.add_argument("tenant", help="the tenant's slug, as given to createtenant")
        parser.add_argument("role", help=f"one of: {', '.join(ROLES)}")

    def handle(self, *args: Any, **options: Any) -> None:
        user = find_person(options["username"])
        tenant = named_tenant(options["tenant"])
        try:
            granted = grant_role(user, tenant, options["role"])
        except CayuError as error:
            raise CommandError(error.message) from None
        now = "is now" if granted else "was already"
        shell.tell(self, [f"{user.get_username()} {now} {options['role']} in {tenant.slug} ({tenant.name})."])


def find_person(username: str) -> AbstractBaseUser:
    model = get_user_model()
    user: AbstractBaseUser | None = model.objects.filter(**{model.USERNAME_FIELD: username}).first()
    if user is not None:
        return user
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
