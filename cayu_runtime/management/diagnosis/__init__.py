"""What `manage.py doctor` looks at: the deployment, then each tenant. It reads bounded lists and changes nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

NOTE, PEOPLE, BROKEN = "note", "people", "broken"
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is stuck or about to be. `level`: it is to be known (note), a person must act (people), or the
    machine does not do its work (broken). `what` says what and why, `do` what to type or to open. `items` names the
    first rows of it, `tenant` whose they are (empty: the deployment's).
    """

    level: str
    code: str
    what: str
    do: str
    tenant: str = ""
    items: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        return asdict(self)
