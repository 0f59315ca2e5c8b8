from __future__ import annotations

import structlog

from cayu_runtime.errors import NotPermitted

log = structlog.get_logger(__name__)


class SignInRefused(NotPermitted):
    """A sign-in that leads nowhere. `code` names the check for logs and the record, the message is for the person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, code=code)


def broken(code: str, problem: BaseException | None = None) -> SignInRefused:
    """The provider's answer could not be used. What it sent is not logged, only which kind of problem it was."""
    log.warning("oidc.unusable_answer", code=code, problem=type(problem).__name__ if problem else "")
    return SignInRefused(
        code,
        "The identity provider could not be reached, or its answer could not be used. Try again in a moment; "
        "if it stays so, an administrator finds the reason in the log.",
    )
