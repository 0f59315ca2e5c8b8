"""Questions: what a tool asks a person in place of running (DESIGN §3)."""

from __future__ import annotations

from dataclasses import dataclass

MAX_QUESTION = 2000
MAX_CHOICES = 20
MAX_CHOICE = 200
MAX_ANSWER = 4000
DEFAULT_ANSWER_SECONDS = 7 * 86400.0
MAX_ANSWER_SECONDS = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to a person. With `choices` the answer is one of them, else a text of at most 4,000 characters.

    `text` has 1 to 2,000 characters; `choices` are none, or 2 to 20 different ones of at most 200 characters. Control
    and invisible characters are taken out before they are counted. `expires_in` is in seconds, at most 30 days; None is
    7 days.
    """

    text: str
    choices: tuple[str, ...] = ()
    expires_in: float | None = None
