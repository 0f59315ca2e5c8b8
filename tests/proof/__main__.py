"""The proof: act once or stop, shown by breaking things.

    make faults N=10000 SEED=7             10,000 injections; the same seed breaks the same things
    make faults N=10000 SEED=7 FROM=4400   the same, from this injection on
    make faults N=22 SEED=7 FROM=4400      one schedule, as a failure names it

Each schedule of 22 injections is a small world of its own, made anew from seed and number. It prints a line for each
hundred schedules and a table at the end; the exit code is 0 if nothing was wrong. docs/proof.md says what is counted.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.databases import ENVIRONMENT
from tests.postgres import PostgresMissing, PostgresServer

LEASE = "1"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=2200, help="how many injections (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="the same seed breaks the same things (default: a new one)")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the injection to begin with")
    parser.add_argument("--trace", action="store_true", help="print what each schedule did")
    options = parser.parse_args()
    seed = random.randrange(100_000) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="cayu-proof-"))
    try:
        server = PostgresServer()
    except PostgresMissing as missing:
        print(f"The proof needs a PostgreSQL that it may restart: {missing}. Install the extra `dev`.", file=sys.stderr)
        return 1
    try:
        return run(server, folder, options.n, seed, options.first, trace=options.trace)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run(server: PostgresServer, folder: Path, count: int, seed: int, first: int, *, trace: bool) -> int:
    for name in list(os.environ):
        if name.startswith("CAYU_"):
            del os.environ[name]
    os.environ.update(
        ENVIRONMENT,
        DATABASE_URL=server.url,
        DJANGO_SETTINGS_MODULE="cayu_project.settings",
        CAYU_LEASE_SECONDS=LEASE,
    )
    import django

    django.setup()
    quiet()

    from tests.proof.place import Place
    from tests.proof.report import Report
    from tests.proof.schedule import SIZE, Schedule

    place = Place.open(server, folder)
    report = Report(count, seed, first)
    began = time.monotonic()
    numbers = range(first // SIZE, -(-(first + count) // SIZE))
    for number in numbers:
        schedule = Schedule(place, seed, number)
        try:
            schedule.run()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                print(f"Stopped. Go on with: make faults N={count} SEED={seed} FROM={number * SIZE}")
                raise
            print("\n".join(schedule.trace))
            traceback.print_exc()
            print(f"WRONG: {type(error).__name__}: {error}")
            print(f"See it again: make faults N={SIZE} SEED={seed} FROM={number * SIZE}", flush=True)
            os._exit(1)  # hands may hang
        if trace:
            print("\n".join(schedule.trace))
        report.add(schedule)
        if report.schedules % 25 == 0:
            print(report.line(time.monotonic() - began, (number + 1) * SIZE), flush=True)
    place.close()
    print(report.table(time.monotonic() - began))
    return 0


def quiet() -> None:
    import logging

    import structlog

    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


if __name__ == "__main__":
    sys.exit(main())
