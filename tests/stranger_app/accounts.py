"""The stranger's own downstream: a file with one line for each account that was closed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cayu_runtime import EffectNotPerformed


@dataclass(frozen=True, slots=True)
class Accounts:
    """`folder` None: the one that STRANGER_FOLDER names when it is needed."""

    folder: Path | None = None

    @property
    def file(self) -> Path:
        return (self.folder or Path(os.environ["STRANGER_FOLDER"])) / "closed"

    def closings(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def closed_under(self, key: str) -> dict[str, Any] | None:
        return next((closing for closing in self.closings() if closing["key"] == key), None)

    def close(self, account: str, key: str) -> None:
        """Raises EffectNotPerformed for an account that is closed already."""
        if any(closing["account"] == account for closing in self.closings()):
            raise EffectNotPerformed(f"Account {account} is closed already.")
        with self.file.open("a") as file:
            file.write(json.dumps({"account": account, "key": key}) + "\n")
