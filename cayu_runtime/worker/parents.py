"""A process that ends with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, signum: signal.Signals) -> None:
    """Have Linux send us `signum` when our parent dies; at once if `parent` is no longer that. Elsewhere this does
    nothing: there a heartbeat that cannot be delivered says the same, up to half a second later.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:
        os.kill(os.getpid(), signum)
