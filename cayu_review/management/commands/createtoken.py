from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_review.models.token import SCOPES
from cayu_review.services.token import create_token
from cayu_runtime.errors import CayuError

from .grantrole import find_person, named_tenant


class Command(BaseCommand):
    help = "Make a token for an agent client. Its text is printed once, alone on standard output, and kept nowhere."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what the client is called, in logs and on records")
        parser.add_argument("--tenant", required=True, help="slug of the one tenant that it works in")
        parser.add_argument(
            "--on-behalf-of", required=True, metavar="USER", help="the person who asks for what it asks for"
        )
        parser.add_argument(
            "--scope", action="append", choices=SCOPES, metavar="SCOPE", help=f"of {', '.join(SCOPES)} (default: all)"
        )
        parser.add_argument("--days", type=int, default=90, help="how long it is valid (default: %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        person, tenant = find_person(options["on_behalf_of"]), named_tenant(options["tenant"])
        scopes = options["scope"] or SCOPES
        try:
            token, text = create_token(tenant, options["name"], person, scopes, options["days"])
        except CayuError as error:
            raise CommandError(error.message) from None
        self.stderr.write(
            f"Token {token.name}, id {token.pk}: {token.scopes.replace(' ', ', ')} in {tenant.slug} for "
            f"{person.get_username()} until {token.expires_at:%Y-%m-%d}. This is the only time it is shown:"
        )
        self.stdout.write(text)
