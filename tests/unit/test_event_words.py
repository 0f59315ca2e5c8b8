"""Every kind of event that the code writes is told in words; a new one without words fails here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import cayu_runtime
from cayu_review.story import EVENTS

pytestmark = pytest.mark.unit

KIND = re.compile(r"(session|model|tool|proposal|question|recovery)(\.[a-z_]+)+")
RUNTIME = Path(cayu_runtime.__file__).parent


def written() -> set[str]:
    files = [*(RUNTIME / "core").rglob("*.py"), *(RUNTIME / "services").rglob("*.py")]
    return {kind for path in files for kind in _kinds(ast.parse(path.read_text()))}


def _kinds(tree: ast.Module) -> Iterator[str]:
    logged = {id(part) for node in ast.walk(tree) if _is_log(node) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and KIND.fullmatch(node.value):
            if id(node) not in logged:
                yield node.value


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log.")


def test_the_kinds_are_found() -> None:
    assert {"session.started", "tool.call.approved", "tool.effect.safe_to_retry"} <= written()


def test_each_kind_has_words() -> None:
    assert written() - set(EVENTS) == set()
