"""`recovery quarantine` and `recovery release` at a shell."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand, CommandParser

from cayu_runtime import Finding
from cayu_runtime.management import quarantine
from cayu_runtime.models import DispatchPause, Quarantine
from tests.db.test_quarantine import ASK, BARRED, authorized
from tests.machine import Counter, Gate, Machine, agent_of
from tests.settling import Adapter, Downstream


class Recovery(BaseCommand):
    """The two alone, as the command `recovery` offers them."""

    def add_arguments(self, parser: CommandParser) -> None:
        quarantine.add_to(parser.add_subparsers(dest="action", required=True))

    def handle(self, *args: Any, **options: Any) -> None:
        options["handler"](self, options)


@pytest.fixture(autouse=True)
def bob(db: None) -> Any:
    return get_user_model().objects.create_user("bob")


def run(machine: Machine | None, action: str, *options: str, person: str = "bob") -> tuple[int, str]:
    scope = ["--tenant", machine.tenant.slug] if machine else ["--all-tenants"]
    out = StringIO()
    try:
        call_command(Recovery(), action, *scope, "--as", person, "--reason", "disk lost", *options, stdout=out)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


def test_from_the_restore_to_open_dispatch(machine):
    done, absent = Downstream(Adapter(Finding.CONFIRMED_DONE)), Downstream(Adapter(BARRED), losses=0)
    first, second = authorized(machine, done), authorized(machine, absent)
    code, said = run(machine, "quarantine")
    assert code == 0, said
    assert "The newest record before that is of" in said
    assert "2 sessions gone through now: 2 stopped, 2 open effects made unknown." in said
    assert "Looked up: 1 completed, 1 safe_to_retry." in said
    code, said = run(machine, "release", "--resume-sessions")
    assert (code, "2 sessions go on." in said) == (0, True)
    machine.run(first)
    machine.decide(machine.approvals(second)[0], "approve")
    machine.run(second)
    assert (first.state, second.state, done.count, absent.count) == ("completed", "completed", 0, 1)
    assert Quarantine.objects.get().released_by.startswith("user:")


def test_sessions_can_be_resumed_together_after_the_release_too(machine):
    session = machine.start(agent_of(Counter(), policy=Gate()), run=False)
    run(machine, "quarantine")
    assert "stay stopped" in run(machine, "release")[1]
    assert "1 sessions go on." in run(machine, "release", "--resume-sessions")[1]
    assert machine.run(session).state == "completed"
    assert "0 sessions go on." in run(machine, "release", "--resume-sessions")[1]


def test_what_is_left_is_named_and_can_be_left_by_name_alone(machine):
    session = authorized(machine, Downstream(Adapter(Finding.UNSUPPORTED)))
    effect = str(machine.effect(session).pk)
    code, said = run(machine, "quarantine")
    assert (code, f"Still unknown: {effect}" in said) == (3, True)
    with pytest.raises(CommandError, match=effect):
        run(machine, "release")
    code, said = run(machine, "release", "--json")
    assert (code, json.loads(said)["error"]["unknown"]) == (1, [effect])
    with pytest.raises(CommandError, match="no id of an effect"):
        run(machine, "release", "--leave", "all")
    code, said = run(machine, "release", "--leave", effect)
    assert (code, f"Left unknown, and not dispatched: {effect}" in said) == (3, True)
    assert not DispatchPause.objects.exists()


def test_it_can_be_closed_first_and_looked_up_later(machine):
    adapter = Adapter(Finding.CONFIRMED_DONE)
    authorized(machine, Downstream(adapter))
    code, _ = run(machine, "quarantine", "--no-lookup")
    assert (code, len(adapter.asked)) == (3, 0)
    code, said = run(machine, "quarantine", "--json")
    told = json.loads(said)
    assert (code, told["sessions"], told["looked_up"], told["still_unknown"]) == (0, 0, {"completed": 1}, [])


def test_all_tenants_are_closed_by_one_and_opened_by_one(machine):
    other = Machine()
    authorized(machine, Downstream(Adapter(Finding.CONFIRMED_DONE)))
    authorized(other, Downstream(Adapter(Finding.CONFIRMED_DONE)))
    code, said = run(None, "quarantine")
    assert (code, "2 completed" in said) == (0, True)
    with pytest.raises(CommandError, match="--all-tenants"):
        run(other, "release")
    assert run(None, "release")[0] == 0
    tool = Counter()
    assert other.start(agent_of(tool, policy=Gate())).state == "completed"


def test_who_may_not_settle_closes_dispatch_and_is_told_what_is_left(machine, settings):
    authorized(machine, Downstream(Adapter(Finding.CONFIRMED_DONE)))
    settings.CAYU_AUTHORITY = "cayu_review.permissions.MembershipAuthority"
    code, said = run(machine, "quarantine")
    assert code == 3
    assert "not looked up" in said
    assert "role" in said
    assert DispatchPause.objects.get().quarantine is not None


@pytest.mark.parametrize(
    "options, says",
    [
        (("--reason", " "), "Say why"),
        (("--as", "Bob"), "spelled 'bob'"),
        (("--as", "nobody"), "no person 'nobody'"),
    ],
)
def test_wrong_input_says_what_to_type(machine, options, says):
    with pytest.raises(CommandError, match=says):
        run(machine, "quarantine", *options)
    assert not Quarantine.objects.exists()


def test_there_is_nothing_to_release(machine):
    with pytest.raises(CommandError, match="no such quarantine"):
        run(machine, "release")


def test_an_ordinary_resume_at_the_shell_says_what_opens_it(machine):
    authorized(machine, Downstream(Adapter(Finding.CONFIRMED_DONE)))
    run(machine, "quarantine")
    with pytest.raises(CommandError, match="recovery release"):
        call_command("dispatch", "resume", "--tenant", machine.tenant.slug)
    assert machine.start(agent_of(Counter(), policy=ASK)).interruption == "approval_required"
