"""What the demo's ledger keeps besides refunds: targets that drift from what is wanted, and changes that correct them.

A target that nobody changed yet has drifted. One change under one `action_id`; asked again, it is the recorded one.
"""

import re
import sqlite3
from dataclasses import asdict, dataclass
from typing import Any

from cayu_project.demo.ledger_file import LIST_LIMIT, BadRequest, File, text_field, utc_now

SCHEMA = """
CREATE TABLE IF NOT EXISTS changes (
    action_id TEXT PRIMARY KEY, target TEXT NOT NULL, reason TEXT NOT NULL, applied_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS targets (name TEXT PRIMARY KEY, drifted INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS steps (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, target TEXT, action_id TEXT, at TEXT NOT NULL
);
"""
NAME = r"[a-z0-9][a-z0-9.-]{0,59}"
ACTION_ID = r"[!-~]{1,200}"


@dataclass(frozen=True)
class Change:
    """What a client wants applied. Two changes are the same if all three fields are."""

    action_id: str
    target: str
    reason: str

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> "Change":
        if set(fields) != {"action_id", "target", "reason"}:
            raise BadRequest("Send exactly action_id, target and reason.")
        action_id = text_field(fields, "action_id", limit=200)
        if not re.fullmatch(ACTION_ID, action_id):
            raise BadRequest("action_id must have 1 to 200 printable ASCII characters without a space.")
        return cls(action_id, target_name(fields.get("target")), text_field(fields, "reason", limit=200))


def target_name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(NAME, value):
        raise BadRequest("A target has 1 to 60 small letters, digits, '.' or '-'.")
    return value


class Targets(File):
    """Every statement about targets and changes."""

    schema = SCHEMA

    def observe(self, target: str) -> dict[str, Any]:
        """How a target is now. `observation` is a number that is never given twice."""
        with self._writing() as connection:
            observation = _step(connection, "observed", target, None)
            return {"target": target, "observation": observation, "drifted": _drifted(connection, target)}

    def apply(self, change: Change) -> tuple[int, dict[str, Any]]:
        with self._writing() as connection:
            _step(connection, "apply_started", change.target, change.action_id)
        with self._writing() as connection:
            recorded = _find(connection, change.action_id)
            if recorded is not None and recorded != change:
                return 409, {"error": "This action_id was used for another change. Use a new one."}
            if recorded is None:
                connection.execute(
                    "INSERT INTO changes (action_id, target, reason, applied_at)"
                    " VALUES (:action_id, :target, :reason, :applied_at)",
                    {**asdict(change), "applied_at": utc_now()},
                )
                _set_drifted(connection, change.target, False)
            _step(connection, "apply_finished", change.target, change.action_id)
        return 200 if recorded else 201, {**asdict(change), "status": "applied", "replayed": recorded is not None}

    def verify(self, action_id: str) -> tuple[int, dict[str, Any]]:
        """Whether the change stands, and how its target is at this moment."""
        with self._writing() as connection:
            recorded = _find(connection, action_id)
            _step(connection, "verified", recorded.target if recorded else None, action_id)
            if recorded is None:
                return 404, {"found": False}
            return 200, {"found": True, "target": recorded.target, "drifted": _drifted(connection, recorded.target)}

    def newest(self) -> list[tuple[str, Change]]:
        """The latest changes with when they were applied, newest first."""
        with self._connection() as connection:
            rows = connection.execute("SELECT * FROM changes ORDER BY rowid DESC LIMIT ?", (LIST_LIMIT,))
            return [(row["applied_at"], Change(row["action_id"], row["target"], row["reason"])) for row in rows]

    def drift(self, target: str) -> None:
        """Let a target drift again."""
        with self._writing() as connection:
            _set_drifted(connection, target, True)


def _step(connection: sqlite3.Connection, kind: str, target: str | None, action_id: str | None) -> int:
    row = connection.execute(
        "INSERT INTO steps (kind, target, action_id, at) VALUES (?, ?, ?, ?)", (kind, target, action_id, utc_now())
    )
    return int(row.lastrowid or 0)


def _find(connection: sqlite3.Connection, action_id: str) -> Change | None:
    row = connection.execute(
        "SELECT action_id, target, reason FROM changes WHERE action_id = ?", (action_id,)
    ).fetchone()
    return row and Change(**row)


def _drifted(connection: sqlite3.Connection, target: str) -> bool:
    row = connection.execute("SELECT drifted FROM targets WHERE name = ?", (target,)).fetchone()
    return row is None or bool(row[0])


def _set_drifted(connection: sqlite3.Connection, target: str, drifted: bool) -> None:
    connection.execute("INSERT OR REPLACE INTO targets (name, drifted) VALUES (?, ?)", (target, drifted))
