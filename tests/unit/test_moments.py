from datetime import UTC, datetime, timedelta

import pytest

from cayu_review.moments import ago, left, near_from, span

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "seconds, words",
    [
        (-5, "0 s"),
        (0.4, "0 s"),
        (12, "12 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (119, "1 min"),
        (3600, "1 h"),
        (7800, "2 h 10 min"),
        (86400, "1 d"),
        (86400 * 3 + 3600 * 4 + 59, "3 d 4 h"),
    ],
)
def test_a_span_is_told_by_its_largest_units(seconds: float, words: str) -> None:
    assert span(timedelta(seconds=seconds)) == words


def test_what_was_and_what_is_left() -> None:
    assert ago(NOON - timedelta(seconds=12), NOON) == "12 s ago"
    assert ago(NOON, NOON) == ago(NOON + timedelta(seconds=1), NOON) == "just now"
    assert left(NOON + timedelta(minutes=5), NOON) == "5 min left"
    assert left(NOON, NOON) == "time is over"


@pytest.mark.parametrize("whole, near", [(7 * 86400, 3600), (3600, 900), (60, 15)])
def test_the_end_is_near_in_the_last_hour_or_quarter(whole: int, near: int) -> None:
    deadline = NOON + timedelta(seconds=whole)
    assert deadline - near_from(NOON, deadline) == timedelta(seconds=near)
