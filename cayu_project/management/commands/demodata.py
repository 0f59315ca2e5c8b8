"""`manage.py demodata`: the demo's tenant and its two people, made once; `manage.py up` calls it on every start."""

import os
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from cayu_review.services.membership import grant_role
from cayu_runtime.errors import CayuError
from cayu_runtime.management import shell
from cayu_runtime.models import Tenant
from cayu_runtime.selectors.tenant import find_tenant
from cayu_runtime.services.tenant import create_tenant

ROLES = {"requester": ("viewer",), "approver": ("viewer", "approver")}


class Command(BaseCommand):
    help = (
        "Make the tenant demo and the people requester and approver, whose passwords are read from the environment: "
        "CAYU_DEMO_REQUESTER_PASSWORD, CAYU_DEMO_APPROVER_PASSWORD. What is there already stays."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        passwords = {name: _password(name) for name in ROLES}
        tenant = find_tenant("demo") or create_tenant("demo", "Demo Ltd")
        try:
            for name, roles in ROLES.items():
                _ensure_person(name, passwords[name], tenant, roles)
        except CayuError as error:
            raise CommandError(error.message) from None
        shell.tell(self, ["The demo's tenant and people are there."])


def _password(name: str) -> str:
    variable = f"CAYU_DEMO_{name.upper()}_PASSWORD"
    password = os.environ.get(variable)
    if not password:
        raise CommandError(f"Set {variable} to the password that {name} is to have.")
    return password


def _ensure_person(name: str, password: str, tenant: Tenant, roles: tuple[str, ...]) -> None:
    user, _ = get_user_model().objects.get_or_create(username=name)
    if not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
    for role in roles:
        grant_role(user=user, tenant=tenant, role=role)
