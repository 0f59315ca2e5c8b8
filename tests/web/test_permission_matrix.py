"""Who may do what through which door: each cell is stated here, and each is tried (DESIGN §8; CASES A22, D2).

A row is an action at a door; its cells are the roles that may, one character each. Whoever is not named is refused
there: a page and the API answer 403, a set names the item, a command ends with a sentence. `o` is the person who asked,
who is a viewer; with `a` in a cell it is an approver who asked for nothing.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from cayu_review.services.membership import grant_role
from cayu_runtime import Finding
from cayu_runtime.models import Approval, EffectRecord, Question, Session
from cayu_runtime.services.approval import decide_approval
from cayu_runtime.services.recovery import plan_recovery
from tests import rows
from tests.api.clients import token_of
from tests.settling import Adapter
from tests.web.office import Office

NOTHING = "There is nothing to repair"
ROLES = {
    "o": ("viewer",),  # who asked for the session
    "v": ("viewer",),
    "a": ("approver",),
    "r": ("reconciler",),
    "u": ("auditor",),
    "m": ("administrator",),
    "s": (),  # a superuser without any role
    "n": (),  # nobody: an account without any role
    "t": (),  # a token with every scope, of the person who asked
}


@dataclass
class Scene:
    """What there is to act on, and who acts. `client` is signed in, or carries the token."""

    office: Office
    who: str
    user: User
    client: Client

    @property
    def by_token(self) -> bool:
        return self.who == "t"

    def post(self, path: str, form: dict[str, Any] | None = None) -> Any:
        return self.client.post(path, form or {})

    def api(self, path: str, body: dict[str, Any]) -> Any:
        return self.client.post(f"/api/v1/{path}", json.dumps(body), content_type="application/json")

    def command(self, *words: Any) -> bool:
        """False if it is the person's role that it ends with. What there is nothing to do for is no refusal."""
        said = ""
        try:
            call_command(*map(str, words), stdout=io.StringIO(), stderr=io.StringIO())
        except CommandError as refusal:
            said = str(refusal)
        except SystemExit as ended:
            said = f"exit code {ended.code}"
        if "role" in said:
            return False
        if said not in ("", "exit code 3") and not said.startswith(NOTHING):
            pytest.fail(said)
        return True

    # What is acted on is made anew in each scene, by the person who asked.

    def session(self) -> Session:
        return self.office.ask(("refund", {"order": "1042"}))

    def approval(self, tool: str = "refund") -> Approval:
        return self.office.approval(self.office.ask((tool, {"order": "1042"})))

    def approved(self) -> Approval:
        approval = self.approval()
        digest = approval.intent_digest.hex()
        actor = self.office.actor(self.office.alice, self.office.north)
        decide_approval(self.office.north, actor, approval.pk, verdict="approve", version=1, digest=digest)
        return approval

    def question(self) -> Question:
        return self.office.question()

    def effect(self) -> EffectRecord:
        self.office.refund.reconciler = Adapter(Finding.NOT_FOUND)
        return self.office.unknown()


def permitted(answer: Any) -> bool:
    """403 is the only refusal that counts; anything else that is no success would hide one."""
    if answer.status_code == 403:
        return False
    assert answer.status_code in (200, 201, 202, 302), (answer.status_code, answer.content[:300])
    return True


def seen(approval: Approval) -> dict[str, Any]:
    return {"version": approval.version, "digest": approval.intent_digest.hex()}


def view_page(s: Scene) -> bool:
    return permitted(s.client.get("/sessions/"))


def view_api(s: Scene) -> bool:
    return permitted(s.client.get("/api/v1/sessions/"))


def start_page(s: Scene) -> bool:
    name = s.session().agent
    return permitted(s.post("/start/", {"agent": name, "text": "go", "session_id": "a-new-one"}))


def start_api(s: Scene) -> bool:
    return permitted(s.api("sessions/", {"agent": s.session().agent, "text": "go"}))


def decide_page(s: Scene) -> bool:
    approval = s.approval()
    return permitted(s.post(f"/approvals/{approval.pk}/decide/", s.office.form(approval, "approve")))


def decide_api(s: Scene) -> bool:
    approval = s.approval()
    return permitted(s.api(f"approvals/{approval.pk}/decide/", {"decision": "approve", **seen(approval)}))


def decide_bulk(s: Scene) -> bool:
    approval = s.approval("label")
    item = f"{approval.pk}~{approval.version}~{approval.intent_digest.hex()}"
    answer = s.post("/approvals/together/", {"decision": "approve", "item": item, "reason": ""})
    approval.refresh_from_db()
    assert answer.status_code in (200, 400, 403), answer.status_code
    return approval.state == "approved"


def claim_page(s: Scene) -> bool:
    return permitted(s.post(f"/approvals/{s.approval().pk}/claim/"))


def claim_api(s: Scene) -> bool:
    return permitted(s.api(f"approvals/{s.approval().pk}/claim/", {}))


def release_page(s: Scene) -> bool:
    return permitted(s.post(f"/approvals/{s.approval().pk}/release/"))


def release_api(s: Scene) -> bool:
    answer = s.api(f"approvals/{s.approval().pk}/release/", {})
    return answer.status_code == 204 or permitted(answer)


def limit_command(s: Scene) -> bool:
    return s.command("tenant", "limits", "north", "--steps", "9", "--as", s.user.username, "--reason", "why")


def revoke_page(s: Scene) -> bool:
    approval = s.approved()
    return permitted(s.post(f"/approvals/{approval.pk}/revoke/", {**seen(approval), "reason": "no"}))


def revoke_api(s: Scene) -> bool:
    approval = s.approved()
    return permitted(s.api(f"approvals/{approval.pk}/revoke/", {**seen(approval), "reason": "no"}))


def answer_page(s: Scene) -> bool:
    question = s.question()
    form = {"answer": "10", "digest": question.digest.hex()}
    return permitted(s.post(f"/questions/{question.pk}/answer/", form))


def answer_api(s: Scene) -> bool:
    question = s.question()
    return permitted(s.api(f"questions/{question.pk}/answer/", {"answer": "10", "digest": question.digest.hex()}))


def look_up_page(s: Scene) -> bool:
    effect = s.effect()
    form = {"reason": "why", "revision": effect.revision, "dispatch": effect.dispatch_id or ""}
    return permitted(s.post(f"/effects/{effect.pk}/look-up/", form))


def look_up_api(s: Scene) -> bool:
    effect = s.effect()
    body = {"kind": "lookup", "revision": effect.revision, "dispatch_id": str(effect.dispatch_id), "reason": "why"}
    return permitted(s.api(f"calls/{effect.call_id}/effect/reconcile/", body))


def look_up_command(s: Scene) -> bool:
    effect = s.effect()
    saw = f"{effect.revision}:{effect.dispatch_id}"
    return s.command("effects", "lookup", effect.pk, "--seen", saw, "--as", s.user.username, "--reason", "why")


def stop_page(s: Scene) -> bool:
    return permitted(s.post(f"/sessions/{s.session().session_id}/stop/", {"reason": "no"}))


def stop_api(s: Scene) -> bool:
    return permitted(s.api(f"sessions/{s.session().session_id}/interrupt/", {"reason": "no"}))


def continue_page(s: Scene) -> bool:
    session = s.office.ask(("look", {"order": "7"}), gated=())
    return permitted(s.post(f"/sessions/{session.session_id}/continue/", {"text": "go on"}))


def continue_api(s: Scene) -> bool:
    session = s.office.ask(("look", {"order": "7"}), gated=())
    return permitted(s.api(f"sessions/{session.session_id}/messages/", {"text": "go on"}))


def abandon_page(s: Scene) -> bool:
    effect = s.effect()
    return permitted(s.post(f"/effects/{effect.pk}/abandon/", {"reason": "why", "sure": "1"}))


def abandon_api(s: Scene) -> bool:
    return permitted(s.api(f"sessions/{s.session().session_id}/abandon/", {"reason": "why"}))


def recover_api(s: Scene) -> bool:
    session = s.session()
    answer = s.client.get(f"/api/v1/sessions/{session.session_id}/recovery-plan/")
    if answer.status_code == 403:
        return False
    body = {"digest": answer.json()["digest"], "reason": "why"}
    answer = s.api(f"sessions/{session.session_id}/recover/", body)
    return answer.status_code == 409 or permitted(answer)  # there is nothing to repair


def recover_command(s: Scene) -> bool:
    session = s.session()
    digest = plan_recovery(s.office.north, session.session_id).digest
    words = ("recovery", "execute", session.session_id, digest, "--as", s.user.username, "--reason", "why")
    return s.command(*words, "--tenant", "north")


def audit_admin(s: Scene) -> bool:
    answer = s.client.get("/admin/cayu_runtime/session/")
    return answer.status_code == 200


def people_admin(s: Scene) -> bool:
    return s.client.get("/admin/auth/user/").status_code == 200


def people_page(s: Scene) -> bool:
    return permitted(s.post("/people/give/", {"name": "dave", "role": "viewer"}))


def token_page(s: Scene) -> bool:
    return permitted(s.post("/tokens/", {"name": "x", "person": "bob", "days": "1", "scopes": ["read"]}))


def pause_page(s: Scene) -> bool:
    return permitted(s.post("/dispatch/", {"reason": "why"}))


GRANT = {"tool": "refund", "rules": "{}", "hours": "1", "uses": "1", "reason": "why"}


def grant_page(s: Scene) -> bool:
    s.session()
    return permitted(s.post("/grants/", GRANT))


def grant_command(s: Scene) -> bool:
    s.session()
    signed = ("--as", s.user.username, "--reason", "why")
    return s.command("grants", "make", "refund", "--tenant", "north", "--rules", "{}", *signed)


def grant_back_page(s: Scene) -> bool:
    grant = rows.grant(tenant=s.office.north)
    return permitted(s.post(f"/grants/{grant.pk}/revoke/", {"reason": "why"}))


def grant_back_command(s: Scene) -> bool:
    grant = rows.grant(tenant=s.office.north)
    return s.command("grants", "revoke", grant.pk, "--as", s.user.username, "--reason", "why")


MATRIX: list[tuple[Callable[[Scene], bool], str]] = [
    (view_page, "ovarum"),
    (view_api, "ovarumt"),
    (start_page, "ova"),
    (start_api, "ovat"),
    (decide_page, "a"),
    (decide_api, "a"),
    (decide_bulk, "a"),
    (claim_page, "a"),
    (claim_api, "a"),
    (release_page, "a"),
    (release_api, "a"),
    (revoke_page, "a"),
    (revoke_api, "a"),
    (answer_page, "oa"),
    (answer_api, "oa"),
    (look_up_page, "ar"),
    (look_up_api, "ar"),
    (look_up_command, "ar"),
    (stop_page, "oa"),
    (stop_api, "oat"),
    (continue_page, "o"),
    (continue_api, "ot"),
    (abandon_page, "ar"),
    (abandon_api, "ar"),
    (recover_api, "ar"),
    (recover_command, "ar"),
    (audit_admin, "u"),
    (people_admin, "ms"),
    (people_page, "m"),
    (token_page, "m"),
    (pause_page, "m"),
    (limit_command, "ovarumsn"),  # who operates the deployment names somebody; their role is not asked
    (grant_page, "a"),
    (grant_command, "a"),
    (grant_back_page, "am"),
    (grant_back_command, "am"),
]
PAGES = ("_page", "_admin", "_bulk", "_command")


def scene(office: Office, who: str) -> Scene:
    if who == "t":
        return Scene(
            office,
            who,
            office.bob,
            Client(headers={"Authorization": f"Bearer {token_of(office.bob, office.north)[1]}"}),
        )
    user = office.bob if who == "o" else User.objects.create_user(f"{who}-somebody", is_superuser=who == "s")
    for role in ROLES[who] if who != "o" else ():
        grant_role(user, office.north, role)
    return Scene(office, who, user, office.client(user))


OWN_THREAD = pytest.mark.django_db(transaction=True)  # an adapter runs in one, and sees what is committed
CELLS = [
    pytest.param(
        deed,
        who,
        who in may,
        id=f"{deed.__name__}-{who}",
        marks=[OWN_THREAD] if deed.__name__.startswith("look_up") else [],
    )
    for deed, may in MATRIX
    for who in ROLES
    if not (who == "t" and deed.__name__.endswith(PAGES))  # a token opens no page and names nobody at a shell
]


@pytest.mark.parametrize("deed, who, may", CELLS)
def test_each_cell(office: Office, deed: Callable[[Scene], bool], who: str, may: bool) -> None:
    assert deed(scene(office, who)) is may


def test_by_four_eyes_an_approver_decides_nothing_that_they_asked_for(office: Office) -> None:  # A22
    grant_role(office.bob, office.north, "approver")
    for deed in (decide_page, decide_api, revoke_page, revoke_api):
        assert deed(scene(office, "o")) is False
    bob = scene(office, "o")
    approval = office.approval(office.ask(("label", {"order": "7"}), four_eyes=True))
    item = f"{approval.pk}~{approval.version}~{approval.intent_digest.hex()}"
    answer = bob.post("/approvals/together/", {"decision": "approve", "item": item, "reason": ""})
    assert b"You asked for this yourself" in answer.content
    approval.refresh_from_db()
    assert approval.state == "pending"
