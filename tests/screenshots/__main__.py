"""Every page in every state, as pictures: light and dark, 1280 and 360 pixels wide.

    python -m tests.screenshots --out var/screenshots --only session

The real web process shows rows that are made for this. It fails on a page without a picture, on what the browser
complains about, on a page that is wider than its window, and on what axe finds. Then the pictures are to be looked at.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.chromium import find_chromium
from tests.databases import ENVIRONMENT


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("var/screenshots"), help="folder (default: %(default)s)")
    parser.add_argument("--only", default="", help="only pictures whose names contain one of these, by commas")
    options = parser.parse_args()
    if find_chromium() is None:
        return int(bool(sys.stderr.write("No Chromium was found. Install one, or name it by CHROMIUM.\n")))
    with tempfile.TemporaryDirectory(prefix="cayu-screenshots-") as folder:
        _prepare_environment(Path(folder))
        return run(options.out, options.only)


def _prepare_environment(folder: Path) -> None:
    for name in list(os.environ):
        if name.startswith("CAYU_"):
            del os.environ[name]
    os.environ.pop("DEBUG", None)
    os.environ.update(ENVIRONMENT)
    os.environ.update(
        DATABASE_URL=f"sqlite:///{folder}/screenshots.sqlite3",
        CAYU_INSECURE_COOKIES="1",
        CAYU_OIDC_ISSUER="http://127.0.0.1:9",  # where nobody answers
        CAYU_OIDC_CLIENT_ID="cayu",
        CAYU_OIDC_CLIENT_SECRET="known to both",
        CAYU_OIDC_NAME="Example ID",
        CAYU_TEST_DURABILITY_OFF="1",
        DJANGO_SETTINGS_MODULE="cayu_project.settings",
        DJANGO_ALLOW_ASYNC_UNSAFE="true",  # Playwright's loop runs in this thread; nothing is shared
    )


def run(out: Path, only: str) -> int:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test.utils import setup_test_environment

    setup_test_environment()
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # nobody signs in by password

    from .camera import Camera
    from .coverage import uncovered
    from .shots import SHOTS
    from .states import make_states

    call_command("migrate", verbosity=0)
    out.mkdir(parents=True, exist_ok=True)
    problems = [
        f"{name}: no picture shows it. Add a Shot, or say in NO_PICTURE why there is none." for name in uncovered()
    ]
    for problem in problems:
        print(problem, flush=True)
    with Camera(out, make_states()) as camera:
        for shot in SHOTS:
            if any(part in shot.name for part in only.split(",")):
                for problem in camera.take(shot):
                    problems.append(problem)
                    print(problem, flush=True)
    print(f"{camera.taken} pictures in {out}. Look at them. What is wrong with them: {len(problems) or 'nothing'}.")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
