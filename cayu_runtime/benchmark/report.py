"""The figures beside what they are to reach: as data, and as a table for people."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .goals import FIGURES, Goal

Figures = Mapping[str, float]
# Beyond this share of the cores, what others do is worth a word.
DISTURBED = 0.05


def machine() -> dict[str, Any]:
    """What was measured on, without a name or a place of it."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "django": version("django"),
        "psycopg": version("psycopg"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def heading(machine: Mapping[str, Any], versions: list[str], others: float, *, quick: bool) -> str:
    about = [
        f"{machine['processor']}, {machine['cores']} cores, the database's too",
        f"{machine['system']}, Python {machine['python']}, Django {machine['django']}, {', '.join(versions)}",
    ]
    if others > DISTURBED:
        about.append(
            f"Other work took {others:.0%} of the cores meanwhile: times and rates are worse than they need be."
        )
    if quick:
        about.append("Quick: shorter and rougher than a whole run.")
    return "\n".join(about) + "\n"


def judged(vendor: str, figures: Figures) -> dict[str, dict[str, Any]]:
    """Each figure with its unit and goal; `reached` is None where there is none."""
    known = {figure.name: figure for figure in FIGURES}
    answer: dict[str, dict[str, Any]] = {}
    for name, value in figures.items():
        figure = known.get(name)
        goal: Goal | None = figure.goals.get(vendor) if figure else None
        answer[name] = {
            "value": round(value, 4),
            "unit": figure.unit if figure else "",
            "reach": str(goal) if goal else None,
            "reached": goal.reached_by(value) if goal else None,
        }
    return answer


def document(
    machine: Mapping[str, Any],
    versions: Mapping[str, str],
    results: Mapping[str, Figures],
    others: float,
    *,
    quick: bool,
) -> str:
    databases = {
        vendor: {"version": versions[vendor], "figures": judged(vendor, figures)} for vendor, figures in results.items()
    }
    about = {"machine": machine, "quick": quick, "share_of_other_work": round(others, 3)}
    return json.dumps({**about, "databases": databases}, indent=2)


def table(results: Mapping[str, Figures]) -> str:
    """One line for each figure, a value for each database, and whether it reached what it is to reach."""
    lines = [("figure", *(cell for vendor in results for cell in (vendor, "to reach", "")))]
    for figure in FIGURES:
        if not any(figure.name in figures for figures in results.values()):
            continue
        line = [figure.words]
        for vendor, figures in results.items():
            line += _cells(figure.goals.get(vendor), figure.unit, figures.get(figure.name))
        lines.append(tuple(line))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([rows[0], "─" * max(map(len, rows)), *rows[1:]])


def _cells(goal: Goal | None, unit: str, value: float | None) -> tuple[str, str, str]:
    if value is None:
        return "–", str(goal or ""), "not measured" if goal else ""
    reached = "" if goal is None else "reached" if goal.reached_by(value) else "not reached"
    return f"{number(value)} {unit}".strip(), str(goal or ""), reached


def number(value: float) -> str:
    """Three figures are as much as such a measurement can say."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
