"""kill -9 of everything, one after another, under load, round after round; an independent count says who was right.

    python -m tests.faults.rounds --rounds 20 --seed 1 --database postgres

A round kills, in an order that the seed chooses: a busy worker, an idle one, a cluster's master (its guard), the
supervisor, the web process. What a service manager would do is done here: supervisor and web are started again. People
start sessions and approve over HTTP the whole time, and repeat what got no answer. What tools did is counted from the
journal that they write, not from the database. The last line is the verdict; the exit code is 0 if it is good.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cayu_runtime.benchmark.database import NoDatabase, postgres_database, postgres_server, sqlite_file
from tests.databases import ENVIRONMENT


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.rounds", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="the same seed kills in the same order (default: a new one)")
    parser.add_argument("--database", choices=("postgres", "sqlite"), default="postgres")
    options = parser.parse_args()
    seed = random.randrange(10_000) if options.seed is None else options.seed
    try:
        with a_database(options.database) as url, a_folder() as folder:
            return run(url, folder, options.rounds, seed)
    except NoDatabase as problem:
        return int(bool(sys.stderr.write(f"{problem}\n")))


@contextmanager
def a_database(kind: str) -> Iterator[str]:
    """An empty one that keeps what it commits."""
    if kind == "sqlite":
        with sqlite_file() as url:
            yield url
    else:
        with postgres_server(os.environ.get("TEST_DATABASE_URL", "")) as server, postgres_database(server) as url:
            yield url


@contextmanager
def a_folder() -> Iterator[Path]:
    """For logs and the journal. It stays where something was wrong."""
    folder = Path(tempfile.mkdtemp(prefix="cayu-rounds-"))
    try:
        yield folder
    except BaseException:
        print(f"Logs, journal and kills of this run: {folder}", flush=True)
        raise
    if (folder / "wrong").exists():
        print(f"Logs, journal and kills of this run: {folder}", flush=True)
    else:
        shutil.rmtree(folder)


def run(url: str, folder: Path, rounds: int, seed: int) -> int:
    for name in list(os.environ):
        if name.startswith("CAYU_"):
            del os.environ[name]
    os.environ.update(ENVIRONMENT, DATABASE_URL=url, DJANGO_SETTINGS_MODULE="cayu_project.settings")
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    settings.CAYU_AUTHORITY = "tests.machine.Everybody"  # of this process: people decide over HTTP, as members
    call_command("migrate", verbosity=0)
    from tests.faults.killing import killing

    print(f"{rounds} rounds on {url.partition(':')[0]}, seed {seed}", flush=True)
    began = time.monotonic()
    with killing(folder, dict(os.environ), seed) as it:
        for number in range(1, rounds + 1):
            it.round()
            print(
                f"round {number} of {rounds}: {it.tally.kills.total()} kills, {int(time.monotonic() - began)} s",
                flush=True,
            )
        it.settle()
    said = [f"wrong: {one}" for one in it.tally.wrong] + [f"late: {one}" for one in it.tally.late]
    for line in said:
        print(f"  {line}")
    if said:
        (folder / "wrong").write_text("\n".join(said))
    print(f"{rounds} rounds on {url.partition(':')[0]}, seed {seed}: {it.tally.verdict()}")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
