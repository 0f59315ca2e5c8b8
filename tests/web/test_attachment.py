"""Attachments: named where their result is shown, saved as files, never opened by the browser."""

from typing import Any

import pytest
from django.test import Client

from cayu_runtime import ToolContext, ToolResult
from cayu_runtime.core.results import MAX_CONTENT
from cayu_runtime.models import Attachment, Session
from tests import rows
from tests.web.office import Office


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


def looked(office: Office, monkeypatch: pytest.MonkeyPatch, result: ToolResult) -> Session:
    """A session whose reading tool returned this."""

    def run(ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        return result

    monkeypatch.setattr(office.look, "run", run)
    return office.ask(("look", {"order": "1042"}))


def test_a_result_that_was_cut_says_so_and_the_whole_can_be_saved(
    office: Office, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = looked(office, monkeypatch, ToolResult("é" * (MAX_CONTENT + 1)))
    (row,) = Attachment.objects.filter(session=session)
    page = alice.get(f"/sessions/{session.session_id}/").content.decode()
    assert f'<a href="/attachments/{row.id}/" download>content.txt</a>' in page
    assert f"{row.size} bytes" in page
    assert row.sha256.hex() in page
    answer = alice.get(f"/attachments/{row.id}/")
    assert answer.content.decode() == "é" * (MAX_CONTENT + 1)


def test_the_effect_page_names_them_too(office: Office, alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office.refund, "run", lambda ctx, args: ToolResult("ok", artifacts=({"body": "<script>"},)))
    session = office.ask()
    approval = office.approval(session)
    alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    office.run(session)
    (row,) = Attachment.objects.filter(session=session)
    page = alice.get(f"/effects/{office.effect(session).id}/").content.decode()
    assert f'<a href="/attachments/{row.id}/" download>attachment</a>' in page


@pytest.mark.parametrize("media_type", ["text/html", "image/svg+xml", "application/javascript"])
def test_no_browser_renders_one(office: Office, alice: Client, media_type: str) -> None:
    body = b"<script>alert(1)</script>"
    row = rows.attachment(
        call=rows.call("completed", round=rows.tool_round("settled", session=rows.session(tenant=office.north))),
        name='a"b\r\nSet-Cookie: x=1.html',
        media_type=media_type,
        body=body,
    )
    answer = alice.get(f"/attachments/{row.id}/")
    assert answer.content == body
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment; filename")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in answer.headers
    assert "no-store" in answer["Cache-Control"]


def test_people_of_another_tenant_and_strangers_do_not_get_it(office: Office) -> None:
    row = rows.attachment(
        call=rows.call("completed", round=rows.tool_round("settled", session=rows.session(tenant=office.north)))
    )
    assert office.client(office.carol).get(f"/attachments/{row.id}/").status_code == 404
    assert office.client(office.dave).get(f"/attachments/{row.id}/").status_code == 403
    assert Client().get(f"/attachments/{row.id}/").status_code == 302
    assert office.client(office.alice).post(f"/attachments/{row.id}/").status_code == 405
