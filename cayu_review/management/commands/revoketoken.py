from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_review.services.token import revoke_token
from cayu_runtime.errors import CayuError
from cayu_runtime.management import shell


class Command(BaseCommand):
    help = "End a token now. What it started goes on; it can start and read nothing more."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("token", type=UUID, help="the token's id, as createtoken printed it")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            token = revoke_token(options["token"])
        except CayuError as error:
            raise CommandError(error.message) from None
        shell.tell(self, [f"Token {token.name} is revoked."])
