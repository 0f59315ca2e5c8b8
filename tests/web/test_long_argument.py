"""A 300 KB argument is read in full, approved as it is, and covered by the digest to its last byte (A24)."""

from html import unescape

import pytest

from cayu_runtime.core.judgement import action_digests
from tests.web.office import Office

TEXT = "".join(f"{n:06} price of one article;" for n in range(12_000))
assert len(TEXT) > 300 * 1024


def test_a_long_argument_is_shown_whole_and_approved_as_it_is(office: Office) -> None:  # A24
    session = office.ask(("refund", {"order": "1042", "note": TEXT}))
    approval = office.approval(session)
    alice = office.client(office.alice)
    page = alice.get(f"/approvals/{approval.id}/").content.decode()
    assert TEXT in unescape(page)
    assert approval.intent_digest.hex() in page
    answer = alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    assert answer.status_code == 302
    office.run(session)
    assert session.state == "completed"
    assert office.refund.count == 1
    assert approval.call.arguments["note"] == TEXT


@pytest.mark.parametrize("place", [0, len(TEXT) // 2, len(TEXT) - 1])
def test_the_digest_covers_every_byte(office: Office, place: int) -> None:
    session = office.ask(("refund", {"order": "1042", "note": TEXT}))
    call = office.approval(session).call

    def digests(note: str) -> tuple[bytes, bytes]:
        arguments = {"order": "1042", "note": note}
        return action_digests(
            office.north.id, call.tool, call.tool_version, call.effect_class, arguments, "1042", call.operation_id
        )

    assert digests(TEXT) == (call.action_digest, call.intent_digest)
    changed = TEXT[:place] + ("x" if TEXT[place] != "x" else "y") + TEXT[place + 1 :]
    assert all(old != new for old, new in zip(digests(TEXT), digests(changed), strict=True))


def test_one_changed_byte_in_the_row_stops_it(office: Office) -> None:
    session = office.ask(("refund", {"order": "1042", "note": TEXT}))
    approval = office.approval(session)
    office.client(office.alice).post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    call = approval.call
    call.arguments = {**call.arguments, "note": TEXT[:-1] + "!"}
    call.save()
    office.run(session)
    call.refresh_from_db()
    assert (call.state, call.reason, office.refund.count) == ("blocked", "stale", 0)
