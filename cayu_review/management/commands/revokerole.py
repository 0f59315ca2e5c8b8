from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_review.models.membership import ROLES
from cayu_review.services.membership import revoke_role
from cayu_runtime.management import shell

from .grantrole import find_person, named_tenant


class Command(BaseCommand):
    help = "Take a role in a tenant from a person. It ends at once, also for pages that are open."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="the name the person signs in with")
        parser.add_argument("tenant", help="the tenant's slug, as given to createtenant")
        parser.add_argument("role", choices=ROLES, metavar="ROLE", help=f"one of: {', '.join(ROLES)}")

    def handle(self, *args: Any, **options: Any) -> None:
        user = find_person(options["username"])
        tenant = named_tenant(options["tenant"])
        if not revoke_role(user, tenant, options["role"]):
            raise CommandError(f"{user.get_username()} is no {options['role']} in {tenant.slug}, so nothing changed.")
        shell.tell(self, [f"{user.get_username()} is {options['role']} in {tenant.slug} ({tenant.name}) no more."])
