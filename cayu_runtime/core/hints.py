"""Where text goes while a model is still giving it: to one listener of this process, or nowhere.

A worker that carries streams calls `listen` once. Without a listener models are asked for whole answers.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from ..contracts import TextHint
from .lease import Lease

log = structlog.get_logger(__name__)

Listener = Callable[[TextHint], None]
Teller = Callable[[str, int, str], None]

_listener: Listener | None = None


def listen(listener: Listener | None) -> None:
    """Tell `listener` every hint from now on (None: nobody).

    It is called in the thread that talks to the model, between two pieces of its answer: it hands the hint on and
    returns at once. What it raises is logged, and the hint is lost.
    """
    global _listener
    _listener = listener


def teller(lease: Lease, step: int) -> Teller | None:
    """How one model step tells its text: (model, characters before it, text). None when nobody listens."""
    listener = _listener
    if listener is None:
        return None

    def tell(model: str, offset: int, text: str) -> None:
        try:
            listener(TextHint(lease.tenant, lease.session, step, model, offset, text))
        except Exception as error:
            log.warning("hint.lost", session=str(lease.session), error=type(error).__name__)

    return tell
