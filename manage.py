#!/usr/bin/env python
"""Django's command line for Cayu on Django."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cayu_project.settings")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError

    try:
        execute_from_command_line(sys.argv)
    except (OperationalError, ProgrammingError) as error:
        said = str(error).partition("\n")[0]
        if "no such table" not in said and "no such column" not in said and "does not exist" not in said:
            raise
        sys.exit(f"The database is not of this version ({said}). Check DATABASE_URL, then run: manage.py migrate")


if __name__ == "__main__":
    main()
