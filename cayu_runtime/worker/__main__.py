"""`python -m cayu_runtime.worker PIPE SUPERVISOR`: one cluster, started by `manage.py worker` and by nobody else."""

from __future__ import annotations

import os
import signal
import sys

import django

from cayu_runtime.worker.parents import die_with_parent


def main() -> None:
    pipe, supervisor = (int(argument) for argument in sys.argv[1:])
    die_with_parent(supervisor, signal.SIGKILL)
    if os.getpgrp() != os.getpid():
        sys.exit("Start `manage.py worker`: it starts this one, in a process group of its own.")
    os.set_inheritable(pipe, False)  # no program that a tool starts shall hold it open
    django.setup()
    from cayu_runtime.worker.guard import stand_guard

    stand_guard(pipe)


if __name__ == "__main__":
    main()
