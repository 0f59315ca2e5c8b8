from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cayu_runtime.management import shell
from cayu_runtime.management.audit import Damage, anchor, chains, schema, ties

SHOWN = 1000
DAMAGED = 2


class Command(BaseCommand):
    help = (
        "Check the records against each other: chains of events, constraints and triggers of the database, tenants, "
        "states and digests of rows. It only reads. Chain heads kept elsewhere (--write-anchor, then --anchor) show "
        "also what was cut off. Exit code: 0 whole, 2 damaged. docs/doctor.md says what a finding means."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        shell.add_scope(parser)
        shell.add_json(parser)
        parser.add_argument(
            "--anchor", type=Path, metavar="FILE", help="compare with the chain heads that an earlier run wrote there"
        )
        parser.add_argument(
            "--write-anchor",
            type=Path,
            metavar="FILE",
            help="if nothing is damaged, write all chain heads there; then keep the file where nobody who can write to "
            "the database can change it (another machine, a signed mail, a write-once bucket)",
        )
        parser.add_argument(
            "--attachments", action="store_true", help="read every attachment, too, and compare digests"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = shell.tenants(options)
        try:
            found = list(islice(_damage(chosen, options), SHOWN + 1))
        except anchor.NoAnchor as problem:
            raise CommandError(str(problem), returncode=shell.REFUSED) from None
        data: dict[str, Any] = {
            "whole": not found,
            "damage": [one.data() for one in found[:SHOWN]],
            "more": len(found) > SHOWN,
            "anchored": None,
        }
        if options["write_anchor"] and not found:
            try:
                data["anchored"] = anchor.write_anchor(options["write_anchor"], chosen)
            except OSError as error:
                raise CommandError(f"The anchor can't be written: {error.strerror}.", returncode=1) from None
        shell.say(self, options, data, _told(found, data, options))
        shell.leave(DAMAGED if found else shell.OK)


def _damage(chosen: list[Any], options: Mapping[str, Any]) -> Iterator[Damage]:
    compared = anchor.anchor_damage(options["anchor"], chosen) if options["anchor"] else ()
    of_tenants = chain.from_iterable(ties.tie_damage(tenant) for tenant in chosen)
    stored = chain.from_iterable(ties.stored_damage(tenant) for tenant in chosen if options["attachments"])
    yield from chain(
        compared, schema.schema_damage(), chains.chain_damage(chosen), of_tenants, ties.reference_damage(), stored
    )


def _told(found: list[Damage], data: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    for one in found[:SHOWN]:
        yield f"{one.kind}  {one.where}: {one.what}"
    if data["more"]:
        yield f"… and more; the first {SHOWN} are shown."
    if found:
        yield "The records are damaged. Keep the database as it is, and see docs/doctor.md."
        if options["write_anchor"]:
            yield "No anchor was written: it would make the damage look right."
    else:
        yield "Chains, constraints, triggers and rows agree."
    if data["anchored"] is not None:
        yield f"{data['anchored']} chain heads written to {options['write_anchor']}. Keep that file elsewhere."
