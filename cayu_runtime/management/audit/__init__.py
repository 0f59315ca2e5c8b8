"""What `manage.py verify_audit` checks: chains, schema, ties between rows, and an anchor kept elsewhere.

It reads in pages by key, so that a large database needs no more memory than a small one, and changes nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

PAGE = 500


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is not as this system leaves it: `kind` is stable, `where` names the row, `what` says what."""

    kind: str
    where: str
    what: str

    def data(self) -> dict[str, Any]:
        return asdict(self)
