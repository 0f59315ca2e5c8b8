"""The pages of administrators: people and roles, tokens, the kill switch. Nobody else sees them."""

import re
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from cayu_review.models import ApiToken, Membership
from cayu_review.selectors.membership import PAGE, held_in
from cayu_review.services.membership import grant_role
from cayu_runtime.contracts import Actor
from cayu_runtime.models import AuditEntry, DispatchPause, ToolCall
from cayu_runtime.services.pause import pause_dispatch
from tests.web.office import Office

ADDRESSES = ("/people/", "/tokens/", "/dispatch/")


@pytest.fixture
def boss(office: Office) -> Client:
    return office.client(office.person("ada", office.north, "administrator"))


def text(response: object) -> str:
    return re.sub(r"\s+", " ", response.content.decode())  # type: ignore[attr-defined]


def give(client: Client, name: str, role: str, **more: str) -> object:
    return client.post("/people/give/", {"name": name, "role": role, **more})


@pytest.mark.parametrize("address", ADDRESSES)
def test_only_an_administrator_of_the_tenant_sees_them(office: Office, boss: Client, address: str) -> None:
    assert boss.get(address).status_code == 200
    assert address in text(boss.get("/people/"))
    for user in (office.alice, office.bob):
        assert office.client(user).get(address).status_code == 403
        assert "Manage" not in text(office.client(user).get("/"))
    assert "Manage" in text(boss.get("/"))
    assert Client().get(address).status_code == 302


def test_a_role_is_given_changed_and_taken_and_each_stands_on_the_chain(office: Office, boss: Client) -> None:
    answer = give(boss, "dave", "approver", tier="2", tools="refund pay*", targets="order 1\norder 2")
    assert answer.status_code == 302  # type: ignore[attr-defined]
    held = held_in(office.north.id, f"user:{office.dave.pk}")["approver"]
    assert (held.tier, held.tools, held.targets) == (2, ["refund", "pay*"], ["order 1", "order 2"])
    page = text(boss.get(f"/people/{office.dave.pk}/"))
    assert "approver, tier 2" in page
    assert "<code>pay*</code>" in page
    give(boss, "dave", "approver")
    assert held_in(office.north.id, f"user:{office.dave.pk}")["approver"].tier == 1
    assert boss.post(f"/people/{office.dave.pk}/take/", {"role": "approver"}).headers["Location"] == "/people/"
    assert held_in(office.north.id, f"user:{office.dave.pk}") == {}
    ada = User.objects.get(username="ada")
    entries = AuditEntry.objects.filter(tenant=office.north, actor=f"user:{ada.pk}").order_by("seq")
    assert [entry.type for entry in entries] == ["role.granted", "role.changed", "role.revoked"]


def test_a_refused_form_says_why_and_keeps_what_was_typed(office: Office, boss: Client) -> None:
    wrong = (
        ({"name": "nobody", "role": "viewer"}, "nobody with this name"),
        ({"name": "dave", "role": "king"}, "no role"),
        ({"name": "dave", "role": "viewer", "tier": "3"}, "Only an approver has a tier"),
        ({"name": "dave", "role": "approver", "tier": "x"}, "from 1 to 9"),
        ({"name": "dave", "role": "viewer", "valid_until": "soon"}, "no moment"),
        ({"name": "dave", "role": "viewer", "valid_until": "2001-01-01T00:00"}, "over before it begins"),
        ({"name": "da\0ve", "role": "viewer"}, "nobody with this name"),
        ({"name": "dave", "role": "viewer", "tools": "refund"}, "Only approver and reconciler"),
    )
    for form, said in wrong:
        answer = boss.post("/people/give/", form)
        assert (answer.status_code, said in text(answer)) == (400, True), form
    kept = text(boss.post("/people/give/", {"name": "dave", "role": "viewer", "tools": "a-tool"}))
    assert 'value="a-tool"' in kept
    assert not Membership.objects.filter(user=office.dave).exists()


def test_people_of_another_tenant_are_not_there(office: Office, boss: Client) -> None:
    assert "carol" not in text(boss.get("/people/"))
    assert boss.get(f"/people/{office.carol.pk}/").status_code == 404
    assert boss.post(f"/people/{office.carol.pk}/take/", {"role": "approver"}).status_code == 404
    assert held_in(office.south.id, f"user:{office.carol.pk}")


def test_the_list_goes_on_and_costs_the_same_however_long_it_is(
    office: Office, boss: Client, django_assert_max_num_queries: object
) -> None:
    people = User.objects.bulk_create(User(username=f"p{number:03}") for number in range(120))
    Membership.objects.bulk_create(Membership(user=user, tenant=office.north, role="viewer") for user in people)
    with django_assert_max_num_queries(8):  # type: ignore[operator]
        first = boss.get("/people/")
    names = re.findall(r'href="/people/\d+/">([^<]+)<', first.content.decode())
    assert len(names) == PAGE
    second = boss.get("/people/", {"after": names[-1]})
    more = re.findall(r'href="/people/\d+/">([^<]+)<', second.content.decode())
    assert more[0] > names[-1]
    assert boss.get("/people/", {"after": "a\0"}).status_code == 400


def test_a_role_that_is_over_is_shown_as_such(office: Office, boss: Client) -> None:
    grant_role(office.dave, office.north, "viewer")
    now = timezone.now()
    Membership.objects.filter(user=office.dave).update(
        valid_from=now - timedelta(days=2), valid_until=now - timedelta(days=1)
    )
    assert "(over)" in text(boss.get(f"/people/{office.dave.pk}/"))


def test_a_token_is_made_shown_once_and_ended(office: Office, boss: Client) -> None:
    made = boss.post("/tokens/", {"name": "robot", "person": "bob", "days": "7", "scopes": ["read", "run"]})
    (shown,) = re.findall(r"<code>(cayu_[^<]+)</code>", made.content.decode())
    assert made.headers["Cache-Control"].startswith("max-age=0")
    token = ApiToken.objects.get()
    assert (token.scopes, token.on_behalf_of, token.tenant) == ("read run", office.bob, office.north)
    api = Client()
    assert api.get("/api/v1/sessions/", headers={"authorization": f"Bearer {shown}"}).status_code == 200
    page = text(boss.get("/tokens/"))
    assert shown not in page
    assert "for bob, may read run" in page
    assert boss.get(f"/tokens/{token.pk}/end/").status_code == 302
    assert api.get("/api/v1/sessions/", headers={"authorization": f"Bearer {shown}"}).status_code == 200
    boss.post(f"/tokens/{token.pk}/end/")
    assert api.get("/api/v1/sessions/", headers={"authorization": f"Bearer {shown}"}).status_code == 401
    other = office.client(office.person("olga", office.south, "administrator"))
    assert other.post(f"/tokens/{token.pk}/end/").status_code == 404
    for form, said in (
        ({"name": "robot", "person": "carol", "days": "7", "scopes": ["read"]}, "has no role in north"),
        ({"name": "robot", "person": "bob", "days": "0", "scopes": ["read"]}, "valid for 1 to"),
        ({"name": "robot", "person": "bob", "days": "9" * 30, "scopes": ["read"]}, "valid for 1 to"),
        ({"name": "robot", "person": "bob", "days": "7"}, "one scope or more"),
        ({"name": "robot", "person": "nobody", "days": "7", "scopes": ["read"]}, "nobody with this name"),
    ):
        answer = boss.post("/tokens/", form)
        assert (answer.status_code, said in text(answer)) == (400, True), form
    assert ApiToken.objects.count() == 1


def test_the_kill_switch_holds_this_tenants_calls_and_lets_them_go(office: Office, boss: Client) -> None:
    session = office.ask(("label", {"order": "7"}), gated=())
    assert boss.post("/dispatch/", {"tool": "label", "reason": " "}).status_code == 400
    assert boss.post("/dispatch/", {"tool": "label", "reason": "an incident"}).status_code == 302
    assert boss.post("/dispatch/", {"tool": "label", "reason": "an incident"}).status_code == 409
    held = office.ask(("label", {"order": "8"}), gated=())
    assert ToolCall.objects.get(session=held).state == "prepared"
    assert ToolCall.objects.get(session=session).state == "completed"
    pause = DispatchPause.objects.get()
    assert pause.tenant == office.north
    assert "an incident" in text(boss.get("/dispatch/"))
    other = office.client(office.person("olga", office.south, "administrator"))
    assert other.post(f"/dispatch/{pause.pk}/resume/").status_code == 404
    assert boss.get(f"/dispatch/{pause.pk}/resume/").status_code == 302
    assert DispatchPause.objects.exists()
    assert boss.post(f"/dispatch/{pause.pk}/resume/").status_code == 302
    assert not DispatchPause.objects.exists()
    assert office.run(held).state == "completed"


def test_a_pause_of_the_whole_deployment_is_seen_and_not_lifted_there(office: Office, boss: Client) -> None:
    pause = pause_dispatch(Actor("shell:ops", "ops", None, "shell"), reason="everything")
    page = text(boss.get("/dispatch/"))
    assert "in the whole deployment" in page
    assert "An operator of the deployment lifts it." in page
    assert boss.post(f"/dispatch/{pause.pk}/resume/").status_code == 404
    assert DispatchPause.objects.count() == 1


@pytest.mark.parametrize("moment", ["0001-01-01T00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_that_utc_does_not_have_is_refused(office: Office, boss: Client, moment: str) -> None:
    for field in ("valid_from", "valid_until"):
        answer = give(boss, "dave", "approver", **{field: moment})
        assert (answer.status_code, "begins and ends in a year" in text(answer)) == (400, True)  # type: ignore[attr-defined]
    assert not Membership.objects.filter(user=office.dave).exists()


@pytest.mark.parametrize(
    "field, value, said",
    [
        ("days", "9" * 5000, "valid for 1 to 366 days"),
        ("days", "0090", "valid for 1 to 366 days"),
        ("name", "n\0m", "that can be seen"),
        ("name", "n\x1b[31m", "that can be seen"),
    ],
)
def test_a_token_that_cannot_be_kept_is_refused(boss: Client, field: str, value: str, said: str) -> None:
    form = {"name": "n", "person": "bob", "days": "90", "scopes": "read", field: value}
    answer = boss.post("/tokens/", form)
    assert (answer.status_code, said in text(answer)) == (400, True)
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("name", ["a" * 101, "re\0fund", "re\x1bfund"])
def test_what_can_be_no_name_is_not_paused(office: Office, boss: Client, name: str) -> None:
    for field in ("tool", "agent"):
        answer = boss.post("/dispatch/", {"reason": "down", field: name})
        assert (answer.status_code, "has such a name" in text(answer)) == (400, True)
    assert not DispatchPause.objects.exists()


def test_the_shell_says_so_when_nothing_here_has_the_name_that_is_paused(office: Office) -> None:
    def pause(tool: str) -> str:
        told = StringIO()
        call_command("dispatch", "pause", "--reason", "down", "--tool", tool, stdout=StringIO(), stderr=told)
        return told.getvalue()

    assert "No tool here is called 'refnd'" in pause("refnd")
    assert pause("refund_order") == ""
    assert {pause.tool for pause in DispatchPause.objects.all()} == {"refnd", "refund_order"}
    with pytest.raises(CommandError, match="No tool has such a name"):
        pause("a" * 101)


@pytest.mark.parametrize("address", ["/", "/reconcile/", "/questions/", "/sessions/", "/grants/", "/tokens/"])
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00"])
def test_a_place_in_a_list_that_utc_does_not_have_is_refused(boss: Client, address: str, moment: str) -> None:
    answer = boss.get(f"{address}?after={moment}~01900000-0000-7000-8000-000000000000")
    assert (answer.status_code, "cannot be used" in text(answer)) == (400, True)
