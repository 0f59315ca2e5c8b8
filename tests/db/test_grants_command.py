"""`manage.py grants`: listed, made and taken back at a shell, by a person with a role and a reason."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from cayu_runtime.models import Grant
from tests.web.office import Office

pytestmark = pytest.mark.django_db(transaction=True)
RULES = '{"order": {"equals": "1042"}}'


@pytest.fixture
def office() -> Office:
    made = Office()
    made.ask(("look", {"order": "1"}))
    return made


def run(*words: str, code: int = 0) -> str:
    out = io.StringIO()
    if code:
        with pytest.raises(SystemExit) as ended:
            call_command("grants", *words, stdout=out)
        assert ended.value.code == code
    else:
        call_command("grants", *words, stdout=out)
    return out.getvalue()


def make(*more: str, person: str = "alice", **options: Any) -> str:
    signed = ("--tenant", "north", "--as", person, "--reason", "small ones")
    return run("make", "refund", *signed, *(more or ("--rules", RULES)), **options)


def test_one_is_made_listed_and_taken_back(office: Office) -> None:
    made = make("--rules", RULES, "--hours", "2", "--uses", "3")
    grant = Grant.objects.get()
    assert made.startswith(f"{grant.pk}  north  live  refund 1, every agent  0 of 3 uses, until ")
    assert run("list", "--all-tenants") == made
    assert run("list", "--tenant", "south") == "No grant was made.\n"
    (shown,) = json.loads(run("list", "--tenant", "north", "--json"))["grants"]
    assert (shown["id"], shown["state"], shown["rules"]) == (str(grant.pk), "live", json.loads(RULES))
    signed = ("--as", "erin", "--reason", "over")
    assert "taken back" in run("revoke", str(grant.pk), *signed)
    assert "  revoked  " in run("list", "--tenant", "north")
    refusal = json.loads(run("revoke", str(grant.pk), *signed, "--json", code=1))
    assert "already, by erin" in refusal["error"]["message"]


def test_the_range_may_stand_in_a_file(office: Office, tmp_path: Path) -> None:
    file = tmp_path / "range.json"
    file.write_text(RULES)
    make("--rules", f"@{file}")
    assert Grant.objects.get().rules == json.loads(RULES)
    with pytest.raises(CommandError, match="can't be read from"):
        make("--rules", f"@{tmp_path / 'gone'}")


@pytest.mark.parametrize(
    "more, person, said",
    [
        (("--rules", RULES), "bob", "needs the role approver"),
        (("--rules", RULES), "carol", "no role in this tenant"),
        (("--rules", RULES), "nobody", "no person 'nobody'"),
        (("--rules", "no"), "alice", "can't be read"),
        (("--rules", RULES, "--hours", "9999999999"), "alice", "30 days"),
        (("--rules", RULES, "--hours", "-1"), "alice", "one minute"),
        (("--rules", RULES, "--uses", "0"), "alice", "from 1 to"),
    ],
)
def test_what_may_not_be_is_refused_with_a_sentence(
    office: Office, more: tuple[str, ...], person: str, said: str
) -> None:
    with pytest.raises(CommandError, match=said):
        make(*more, person=person)
    assert not Grant.objects.exists()


def test_an_unknown_id_is_said(office: Office) -> None:
    for words in ("x", "01a231d7-8ea1-75db-908a-72f23ab66c75"):
        with pytest.raises(CommandError, match="There is no grant"):
            run("revoke", words, "--as", "alice", "--reason", "over")


@pytest.mark.parametrize("limit", ["0", "-1", "10001", "9" * 30])
def test_a_limit_that_no_list_has_is_a_sentence(office: Office, limit: str) -> None:
    with pytest.raises(CommandError, match="--limit is a number of 1 or more, and at most 10000"):
        run("list", "--all-tenants", "--limit", limit)
