"""What the commands of operators share: which tenants, which person and why, and output for people or for programs.

    add_scope(parser)                        --tenant SLUG | --all-tenants
    add_person(parser)                       --as USERNAME --reason TEXT, for everything that writes
    add_json(parser)                         --json
    with refusals(command, options): …       a refusal ends the command with its sentence, or as JSON
    say(command, options, data, lines)       one JSON document, or lines of text
    tell(command, lines)                     lines of text, by a command that has no --json

A person at a shell is believed to be who they say; what they may do is asked of the authority as at every other door.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from ..contracts import Actor
from ..core.results import visible
from ..errors import CayuError
from ..models import Tenant
from ..selectors.tenant import all_tenants, find_tenant

# Exit codes. 2 is Django's own, for arguments that it can't read.
OK = 0
REFUSED = 1
"""Refused, or input that can't be used as it is: the sentence says what to type. What was done before it stays done."""
ATTENTION = 3
"""The command did what was asked, and found something that a person must look at."""

MAX_LIMIT = 10_000


def add_scope(parser: CommandParser) -> None:
    """`--tenant SLUG` or `--all-tenants`; one of them must be given. Read it with `tenants`."""
    scope = parser.add_mutually_exclusive_group(required=True)
    scope.add_argument("--tenant", metavar="SLUG", help="one tenant, by the slug that createtenant was given")
    scope.add_argument("--all-tenants", action="store_true", help="every tenant of this deployment")


def add_person(parser: CommandParser) -> None:
    """`--as USERNAME` and `--reason TEXT`, both needed. Read them with `person` and `reason`."""
    parser.add_argument(
        "--as", dest="username", metavar="USERNAME", required=True, help="the person who does this, as they sign in"
    )
    parser.add_argument("--reason", required=True, help="why; it stays on record")


def add_json(parser: CommandParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def tenants(options: Mapping[str, Any]) -> list[Tenant]:
    """What `add_scope` was given, by slug. CommandError when there is no such tenant."""
    if options["all_tenants"]:
        return all_tenants()
    slug = options["tenant"]
    tenant = find_tenant(slug)
    if tenant is None:
        known = ", ".join(one.slug for one in all_tenants()[:20]) or "none yet; make one with createtenant"
        raise CommandError(f"There is no tenant {slug!r}. The tenants are: {known}.")
    return [tenant]


def person(options: Mapping[str, Any], tenant: Tenant | None) -> Actor:
    """Who acts in this tenant (None: in none in particular). CommandError when there is no such active person."""
    username = options["username"]
    model = get_user_model()
    found = model.objects.filter(**{model.USERNAME_FIELD: username}).first()
    if found is None:
        near = model.objects.filter(**{f"{model.USERNAME_FIELD}__iexact": username}).first()
        hint = f"it is spelled {near.get_username()!r}" if near else "give the name that the person signs in with"
        raise CommandError(f"There is no person {username!r}; {hint}.")
    if not found.is_active:
        raise CommandError(f"The account {username!r} is switched off. Somebody else must do this.")
    name = (getattr(found, "get_full_name", str)() or found.get_username())[:200]
    return Actor(f"user:{found.pk}", name, tenant.id if tenant else None, "shell")


def reason(options: Mapping[str, Any]) -> str:
    """Why. CommandError when nothing that can be read was given."""
    said: str = visible(options["reason"])
    if not said:
        raise CommandError("Say why: --reason needs a text that a person can read later.")
    return said


def limit(options: Mapping[str, Any]) -> int:
    """How many rows to read, of `--limit`. CommandError for none at all, or more than anybody reads."""
    if not 1 <= options["limit"] <= MAX_LIMIT:
        raise CommandError(f"--limit is a number of 1 or more, and at most {MAX_LIMIT}.")
    return int(options["limit"])


@contextmanager
def refusals(command: BaseCommand, options: Mapping[str, Any]) -> Iterator[None]:
    """A service's refusal ends the command with REFUSED: its sentence, or as `{"error": {code, message, …}}`."""
    try:
        yield
    except CayuError as error:
        if not options.get("json"):
            raise CommandError(error.message, returncode=REFUSED) from None
        _print(command, {"error": {"code": error.code, "message": error.message, **error.details}})
        leave(REFUSED)


def say(command: BaseCommand, options: Mapping[str, Any], data: Any, lines: Iterable[str]) -> None:
    """`data` as one JSON document where --json was given, else `lines`. Both as `tell` prints them."""
    if options.get("json"):
        _print(command, data)
    else:
        tell(command, lines)


def tell(command: BaseCommand, lines: Iterable[str]) -> None:
    """Print these lines. A reader who has enough (`| head`) ends the printing; the command goes on to its exit code."""
    try:
        for line in lines:
            command.stdout.write(line)
        command.stdout.flush()
    except BrokenPipeError:
        # What is still buffered would break once more when the interpreter ends.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), command.stdout.fileno())


def leave(code: int) -> None:
    """End the command with this exit code; OK goes on."""
    if code != OK:
        sys.exit(code)


def _print(command: BaseCommand, data: Any) -> None:
    tell(command, [json.dumps(data, cls=DjangoJSONEncoder, indent=2)])
