"""Which pictures are taken: each has the name of an address in the URL conf, who looks, and what is done before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cayu_runtime.services.tenant import set_step_up

from .addresses import States

Act = Callable[[Any, States], None]

# Addresses without a picture, each with its reason; one that ends with * is a whole family.
NO_PICTURE = {
    "health-live": "read by machines",
    "health-ready": "read by machines",
    "confirm": "what it shows without JavaScript is the approval page, asking",
    "decide": "takes a form",
    "answer": "takes a form",
    "stop": "takes a form",
    "revoke": "takes a form",
    "claim": "takes a form",
    "release": "takes a form",
    "look_up": "takes a form",
    "receipt": "takes a form",
    "verify": "takes a form",
    "abandon": "takes a form",
    "resume": "takes a form",
    "continue": "takes a form",
    "logout": "takes a form",
    "give_role": "takes a form",
    "take_role": "takes a form",
    "end_token": "takes a form",
    "resume_dispatch": "takes a form",
    "oidc-callback": "leads on, or refuses as oidc does",
    "revoke_grant": "takes a form",
    "tenant": "takes a form",
    "attachment": "a file to save",
    "api-*": "read by machines; api-docs, which people read, has a picture",
    "admin:*": "some of each kind have a picture; tests/web/test_admin_look asks of more what is asked here",
}


@dataclass(frozen=True)
class Shot:
    """One picture. `at` is an address, or the name of one in States; `refused` is the status that is expected."""

    name: str
    url: str
    at: str
    who: str = "alice"
    refused: int = 0
    act: Act | None = None

    def path(self, states: States) -> str:
        return self.at if self.at.startswith("/") else states.of[self.at]


def keys(page: Any, states: States) -> None:
    page.get_by_role("button", name="Keys").click()


def ask(page: Any, states: States) -> None:
    page.locator("[data-exact-end]").evaluate("element => element.scrollIntoView({block: 'center'})")
    page.locator("[data-approve]:enabled").first.wait_for()
    page.get_by_role("button", name="Approve and").click()


def open_all(page: Any, states: States) -> None:
    page.evaluate("for (const details of document.querySelectorAll('main details')) details.open = true")


def account(page: Any, states: States) -> None:
    page.locator(".account summary").click()


def deny_without_reason(page: Any, states: States) -> None:
    page.evaluate(
        "document.querySelector('#decide').noValidate = true; document.querySelector('[data-key=d]').remove()"
    )
    page.evaluate(
        "document.querySelector('#decide').insertAdjacentHTML('beforeend', '<input name=decision value=deny>')"
    )
    page.evaluate("document.querySelector('#decide').submit()")
    page.get_by_text("Your decision was not recorded").wait_for()


def decide_late(page: Any, states: States) -> None:
    """Somebody else has denied it since the page was opened: the form of one that is still open is sent there."""
    address = states.of["approval denied"]
    page.evaluate(f"document.querySelector('#decide').action = '{address}decide/'")
    page.get_by_label("Reason").fill("too much")
    page.get_by_role("button", name="Deny").click()
    page.get_by_text("Your decision was not recorded").wait_for()


def sign_in(name: str, password: str = "wrong") -> Act:
    def act(page: Any, states: States) -> None:
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_role("alert").wait_for()

    return act


def by_provider(page: Any, states: States) -> None:
    """The provider of these pictures does not answer."""
    page.get_by_role("button", name="Sign in with Example ID").click()
    page.get_by_role("heading", name="You are not signed in").wait_for()


def sign_in_again(page: Any, states: States) -> None:
    """As if the tenant asked for a fresh sign-in."""
    set_step_up(states.office.north, True)
    try:
        ask(page, states)
        page.get_by_role("button", name="Yes,").click()
        page.get_by_role("heading", name="Sign in again to decide").wait_for()
    finally:
        set_step_up(states.office.north, False)


def signed_out(page: Any, states: States) -> None:
    page.context.clear_cookies(name="sessionid")
    page.get_by_label("What should it do?").fill("refund order 1042 25.50\nbecause damaged")
    page.get_by_role("button", name="Start session").click()
    page.get_by_role("heading", name="You are signed out").wait_for()


def too_old(page: Any, states: States) -> None:
    page.context.clear_cookies(name="csrftoken")
    page.get_by_label("What should it do?").fill("refund order 1042 25.50\nbecause damaged")
    page.get_by_role("button", name="Start session").click()
    page.get_by_role("heading", name="This form is too old").wait_for()


def unknown_agent(page: Any, states: States) -> None:
    page.evaluate("document.querySelector('[name=agent]:checked').value = 'nobody'")
    page.get_by_label("What should it do?").fill("refund order 1042 25.50 because damaged")
    page.get_by_role("button", name="Start session").click()
    page.get_by_role("alert").wait_for()


def refused_grant(page: Any, states: States) -> None:
    page.get_by_label("Range, as JSON").fill('{"order": {"between": 5}}')
    page.get_by_label("Why may they pass?").fill("Small orders of this week.")
    page.get_by_role("button", name="Let these calls pass").click()
    page.get_by_role("alert").wait_for()


def not_permitted(page: Any, states: States) -> None:
    """A form for what this person may not do, as if a role had just been taken away."""
    page.evaluate("document.querySelector('form[method=post]').action = location.pathname + 'stop/'")
    page.evaluate("document.querySelector('form[method=post]').submit()")
    page.get_by_role("heading", name="Not permitted").wait_for()


def something_new(page: Any, states: States) -> None:
    """What the queue shows when rows came and went since it was opened."""
    page.evaluate("document.querySelectorAll('[data-rows] > li')[1].remove()")
    page.evaluate("document.querySelector('[data-rows] > li').id = 'r-gone'")
    page.get_by_role("button", name="2 new").wait_for(timeout=15_000)


def look_up(page: Any, states: States) -> None:
    """The ledger does not run here, so it gives no usable answer."""
    page.get_by_label("Why do you ask?").fill("The customer called.")
    page.get_by_role("button", name="Look up now").click()
    page.get_by_text("No usable answer came", exact=False).first.wait_for()


def no_receipt(page: Any, states: States) -> None:
    page.get_by_text("It happened: I have the receipt").click()
    page.get_by_label("Receipt, as JSON", exact=False).fill("Refund 81, booked on Friday")
    page.get_by_label("Where does it come from?").fill("The ledger's clerk sent it.")
    page.get_by_role("button", name="Have this receipt judged").click()
    page.get_by_text("This is not JSON", exact=False).wait_for()


def decide_together(page: Any, states: States) -> None:
    """Decide the first set that no other window has decided."""
    number = 0
    while not page.locator("#decide").count():
        number += 1
        page.goto(states.of[f"together to decide {number}"])
    page.locator("[data-exact-end]").evaluate("element => element.scrollIntoView({block: 'center'})")
    page.get_by_role("button", name="Approve 2", exact=False).click()
    page.get_by_text("left alone", exact=False).first.wait_for()


def fault(page: Any, states: States) -> None:
    from django.template.loader import render_to_string

    page.route("**/fault/", lambda route: route.fulfill(body=render_to_string("500.html"), content_type="text/html"))
    page.goto("/fault/")


def refused_role(page: Any, states: States) -> None:
    page.get_by_label("Name they sign in with").fill("nobody")
    page.get_by_text("Tier, limits and time").click()
    page.get_by_label("Only these tools").fill("refund pay*")
    page.get_by_role("button", name="Give this role").click()
    page.get_by_role("alert").wait_for()


def new_token(page: Any, states: States) -> None:
    page.get_by_label("What the client is called").fill("billing-agent")
    page.get_by_label("Person for whom it asks").fill("bob")
    page.get_by_role("button", name="Make this token").click()
    page.get_by_text("Copy it now", exact=False).wait_for()


def open_details(page: Any, states: States) -> None:
    page.get_by_text("Tier, limits and time").click()


def _each(url: str, *names: str) -> list[Shot]:
    return [Shot(name.replace(" ", "-"), url, name) for name in names]


SHOTS = [
    Shot("queue", "queue", "/"),
    Shot("queue-keys", "queue", "/", act=keys),
    Shot("queue-new", "queue", "/", act=something_new),
    Shot("queue-account", "queue", "/", act=account),
    Shot("queue-empty", "queue", "/", "carol"),
    Shot("queue-past-its-end", "queue", "/?after=2090-01-01T00:00:00%2B00:00~00000000-0000-0000-0000-000000000000"),
    Shot("queue-no-role", "queue", "/", "dave", refused=403),
    Shot("reconcile", "reconcile", "/reconcile/"),
    Shot("reconcile-empty", "reconcile", "/reconcile/", "carol"),
    Shot("questions", "questions", "/questions/"),
    Shot("questions-empty", "questions", "/questions/", "carol"),
    Shot("question-refused", "question", "question", "frank"),
    *_each("question", "question", "question choices", "question answered", "question expired"),
    *_each("approval", "approval odd", "approval idempotent", "approval own", "approval near its end", "approval long",
           "approval denied", "approval approved", "approval done", "approval cancelled", "approval matches",
           "approval differs"),
    *_each("approval", "approval mine", "approval of a colleague"),
    Shot("approval-asking", "approval", "approval near its end", act=ask),
    Shot("approval-agreed", "approval", "approval several people"),
    Shot("approval-to-agree", "approval", "approval several people", "erin"),
    Shot("approval-viewer", "approval", "approval odd", "bob"),
    Shot("approval-no-reason", "approval", "approval idempotent", refused=400, act=deny_without_reason),
    Shot("approval-too-late", "approval", "approval idempotent", refused=409, act=decide_late),
    Shot("reconcile-quarantined", "reconcile", "/reconcile/", "grace"),
    Shot("together", "together", "together to read"),
    Shot("together-nothing", "together", "together nothing"),
    Shot("together-decided", "together", "together to decide 0", act=decide_together),
    Shot("approval-again", "approval", "approval again"),
    Shot("effect-opened", "effect", "effect outcome_unknown", act=open_all),
    Shot("effect-viewer", "effect", "effect outcome_unknown", "frank"),
    Shot("effect-looked-up", "effect", "effect asked", act=look_up),
    Shot("effect-no-receipt", "effect", "effect outcome_unknown", refused=400, act=no_receipt),
    Shot("effect-quarantined", "effect", "effect quarantined", "grace"),
    Shot("effect-quarantined-dispatched", "effect", "effect quarantined after its dispatch", "grace"),
    *_each("effect", "effect outcome_unknown", "effect without an adapter", "effect given up", "effect proposed",
           "effect intent_recorded", "effect receipted", "effect manual_review", "effect safe_to_retry",
           "effect completed", "effect rejected", "effect abandoned"),
    Shot("sessions", "sessions", "/sessions/"),
    Shot("sessions-narrowed", "sessions", "/sessions/?status=interrupted&interruption=operator_requested&q=session"),
    Shot("sessions-none-fits", "sessions", "/sessions/?agent=desk&q=nothing"),
    Shot("sessions-empty", "sessions", "/sessions/", "carol"),
    *_each("session", "session failed", "session running", "session stopping", "session ready",
           "session waits for its model", "session held back", "session client", "session limit_reached",
           "session model_unavailable", "session worker_lost", "session stopped", "session question",
           "session unknown", "session waits", "session long", "session denied", "session approved", "session done",
           "session cancelled", "session proposal matches"),
    Shot("session-opened", "session", "session waits", act=open_all),
    Shot("session-viewer", "session", "session waits", "frank"),
    Shot("start", "start", "/start/"),
    Shot("start-refused", "start", "/start/", refused=400, act=unknown_agent),
    Shot("people", "people", "/people/", "ada"),
    Shot("people-refused", "people", "/people/", "ada", refused=400, act=refused_role),
    Shot("people-not-permitted", "people", "/people/", "bob", refused=403),
    Shot("person", "person", "person limited", "ada", act=open_details),
    Shot("tokens", "tokens", "/tokens/", "ada"),
    Shot("tokens-made", "tokens", "/tokens/", "ada", act=new_token),
    Shot("dispatch", "dispatch", "/dispatch/", "ada"),
    Shot("dispatch-nothing", "dispatch", "/dispatch/", "olga"),
    Shot("grants", "grants", "/grants/"),
    Shot("grants-refused", "grants", "/grants/", refused=400, act=refused_grant),
    Shot("grants-nothing", "grants", "/grants/", "grace"),
    Shot("login", "login", "/accounts/login/", ""),
    Shot("login-wrong", "login", "/accounts/login/", "", act=sign_in("alice")),
    Shot("login-throttled", "login", "/accounts/login/", "", refused=429, act=sign_in("mallory")),
    Shot("api-docs", "api-docs", "/api/docs/", ""),
    Shot("admin", "admin:index", "/admin/", "ada"),
    Shot("admin-login", "admin:login", "/admin/login/", ""),
    *(
        Shot(f"admin-{name}", f"admin:{url}", address, "ada")
        for name, url, address in (
            ("sessions", "cayu_runtime_session_changelist", "/admin/cayu_runtime/session/"),
            ("none-fits", "cayu_runtime_session_changelist", "/admin/cayu_runtime/session/?q=nothing"),
            ("events", "cayu_runtime_event_changelist", "/admin/cayu_runtime/event/"),
            ("session", "cayu_runtime_session_change", "admin session"),
            ("call", "cayu_runtime_toolcall_change", "admin call"),
            ("effect", "cayu_runtime_effectrecord_change", "admin effect"),
            ("person", "auth_user_change", "admin person"),
            ("person-new", "auth_user_add", "/admin/auth/user/add/"),
            ("members", "cayu_review_membership_changelist", "/admin/cayu_review/membership/"),
            ("password", "password_change", "/admin/password_change/"),
        )
    ),
    Shot("login-provider-refused", "oidc", "/accounts/login/", "", refused=403, act=by_provider),
    Shot("approval-sign-in-again", "again", "approval near its end", refused=403, act=sign_in_again),
    Shot("error-signed-out", "start", "/start/", refused=403, act=signed_out),
    Shot("error-form-too-old", "start", "/start/", refused=403, act=too_old),
    Shot("error-not-permitted", "session", "session waits", "frank", refused=403, act=not_permitted),
    Shot("error-400", "queue", "/?after=x", refused=400),
    Shot("error-404", "queue", "/nowhere/", refused=404),
    Shot("error-405", "tenant", "/accounts/tenant/", refused=405),
    Shot("error-500", "queue", "/", act=fault),
]  # fmt: skip
