"""Lengths of time as a person reads them. static/js/times.js keeps them going in the browser, in the same words."""

from __future__ import annotations

from datetime import datetime, timedelta

UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
NEAR = timedelta(hours=1)


def span(length: timedelta) -> str:
    """The two largest units that matter: "12 s", "4 min", "2 h 10 min", "3 d 4 h"."""
    left = max(0, int(length.total_seconds()))
    for index, (seconds, name) in enumerate(UNITS):
        if left >= seconds:
            whole, rest = divmod(left, seconds)
            if name in ("d", "h") and rest >= UNITS[index + 1][0]:
                below, below_name = UNITS[index + 1]
                return f"{whole} {name} {rest // below} {below_name}"
            return f"{whole} {name}"
    return "0 s"


def ago(moment: datetime, now: datetime) -> str:
    return "just now" if now - moment < timedelta(seconds=1) else f"{span(now - moment)} ago"


def left(deadline: datetime, now: datetime) -> str:
    return "time is over" if deadline <= now else f"{span(deadline - now)} left"


def until(moment: datetime, now: datetime) -> str:
    return "a moment" if moment - now < timedelta(seconds=1) else span(moment - now)


def near_from(start: datetime, deadline: datetime) -> datetime:
    """From when on a deadline is near: its last hour, or its last quarter if that is shorter."""
    return deadline - min(NEAR, (deadline - start) / 4)
