"""One database measured from beginning to end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import psutil

from .processes import Ground, cpu_seconds

QUEUE_SIZES = (100, 10_000, 100_000)
FINISHED = (10_000, 100_000)
LONGEST = 300.0

Figures = dict[str, float]
Step = Callable[[Ground, "Extent"], Figures]


@dataclass(frozen=True, slots=True)
class Extent:
    """How long and how often is measured. `stored`: what a lifecycle stores is the growth over at least so many."""

    seconds: float = 20.0
    raw_seconds: float = 6.0
    stored: int = 1000
    sessions: int = 6
    decisions: int = 100
    end_to_end: int = 300
    idle_seconds: float = 20.0
    starts: int = 7
    queue_sizes: tuple[int, ...] = QUEUE_SIZES
    requests: int = 400
    unknown: int = 1000
    finished: tuple[int, ...] = FINISHED


QUICK = Extent(
    seconds=4.0, raw_seconds=2.0, stored=300, sessions=2, decisions=20, end_to_end=40, idle_seconds=8.0, starts=3,
    queue_sizes=QUEUE_SIZES[:2], requests=50, unknown=100, finished=FINISHED[:1],
)  # fmt: skip


def count(ground: Ground, extent: Extent) -> Figures:
    figures: Figures = ground.measure("counts")
    return figures


def lifecycles(ground: Ground, extent: Extent) -> Figures:
    """Rates with one and two processes, what they used, and what they left in the database."""
    before = ground.measure("storage")
    one, _ = _rate(ground, 1, "lifecycles", seconds=extent.seconds)
    two, server = _rate(ground, 2, "lifecycles", seconds=extent.seconds)
    made = sum(child["made"] for child in [*one, *two])
    if made < extent.stored:
        rest, _ = _rate(ground, 2, "lifecycles", seconds=LONGEST, most=(extent.stored - made) // 2)
        made += sum(child["made"] for child in rest)
    after = ground.measure("storage")
    figures = {
        "lifecycles_per_s_1": _per_second(one),
        "lifecycles_per_s_2": _per_second(two),
        "two_processes_to_one": _per_second(two) / _per_second(one),
        "cpu_ms_client": sum(child["cpu_ms"] for child in two) / 2,
        "bytes_per_lifecycle": (after["bytes"] - before["bytes"]) / made,
    }
    for table, size in after["tables"].items():
        figures[f"bytes_per_lifecycle.{table}"] = (size - before["tables"][table]) / made
    return figures if server is None else {**figures, "cpu_ms_server": server}


def raw_driver(ground: Ground, extent: Extent) -> Figures:
    one, _ = _rate(ground, 1, "raw driver", seconds=extent.raw_seconds)
    two, _ = _rate(ground, 2, "raw driver", seconds=extent.raw_seconds)
    return {
        "raw_lifecycles_per_s_1": _per_second(one),
        "raw_lifecycles_per_s_2": _per_second(two),
        "raw_cpu_ms_client": sum(child["cpu_ms"] for child in two) / 2,
    }


def _rate(ground: Ground, processes: int, name: str, **given: Any) -> tuple[list[Any], float | None]:
    """The answers of so many processes at once, and the CPU ms of the database's server for each of their counts."""
    with ground.ready(processes, name, **given) as children:
        server = psutil.Process(ground.server_pid) if ground.server_pid else None
        before = cpu_seconds(server) if server else 0.0
        answers = children.release()
        used = cpu_seconds(server) - before if server else None
    total = sum(answer["count"] for answer in answers)
    return answers, used * 1000 / total if used is not None else None


def _per_second(answers: list[Any]) -> float:
    return sum(answer["count"] / answer["seconds"] for answer in answers)


def calls(ground: Ground, extent: Extent) -> Figures:
    return {"ms_per_durable_call": ground.measure("calls", sessions=extent.sessions)}


def rounds(ground: Ground, extent: Extent) -> Figures:
    lasted = ground.measure("rounds", sessions=extent.sessions)
    figures = {f"ms_per_round_{at}": ms for at, ms in lasted.items()}
    return {**figures, "round_500_to_10": lasted["500"] / lasted["10"]}


def worker(ground: Ground, extent: Extent) -> Figures:
    """What goes through a real `manage.py worker`, and what it uses when nothing does."""
    with ground.worker() as tree:
        lasted = ground.measure("decisions", process="", times=extent.decisions)
        used = cpu_seconds(tree)
        through = ground.measure("end to end", process="", sessions=extent.end_to_end)
        used = cpu_seconds(tree) - used
        time.sleep(2)
        before, began = cpu_seconds(tree), time.monotonic()
        time.sleep(extent.idle_seconds)
        idle = (cpu_seconds(tree) - before) / (time.monotonic() - began)
    return {
        "dispatch_p50_ms": lasted["p50"],
        "dispatch_p95_ms": lasted["p95"],
        "end_to_end_lifecycles_per_s": _per_second([through]),
        "cpu_ms_worker": used * 1000 / through["made"],
        "idle_cpu_percent": idle * 100,
    }


def start(ground: Ground, extent: Extent) -> Figures:
    """From the shell to the end of the smallest command, with every app loaded."""
    lasted = []
    for _ in range(extent.starts):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "django", "version"], env=ground.environment(), check=True, capture_output=True
        )
        lasted.append(time.perf_counter() - began)
    return {"command_start_s": median(lasted)}


def queue(ground: Ground, extent: Extent) -> Figures:
    found = ground.measure("queue", process="web", sizes=extent.queue_sizes)
    figures: Figures = {}
    for size, measured in found.items():
        figures[f"queue_selector_ms_{size}"] = measured["selector_ms"]
        figures[f"queue_page_ms_{size}"] = measured["page_ms"]
    queries = [measured["page_queries"] for measured in found.values()]
    figures["queue_page_queries"] = max(queries)
    figures["queue_page_queries_more"] = queries[-1] - queries[0]
    if "100000" in found:
        for part in ("selector", "page"):
            large, base = figures[f"queue_{part}_ms_100000"], figures[f"queue_{part}_ms_10000"]
            figures[f"queue_{part}_100000_to_10000"] = large / base
    return figures


def api(ground: Ground, extent: Extent) -> Figures:
    with ground.web() as port:
        found = ground.measure("api", process="", port=port, requests=extent.requests)
    return {f"api_{what}_{part}_ms": ms for what, parts in found.items() for part, ms in parts.items()}


def lookups(ground: Ground, extent: Extent) -> Figures:
    return {f"lookups_per_s_{extent.unknown}": _per_second([ground.measure("lookups", effects=extent.unknown)])}


def sweep(ground: Ground, extent: Extent) -> Figures:
    found = ground.measure("sweep", sizes=extent.finished)
    return {f"sweep_ms_{size}": ms for size, ms in found.items()}


# Very many rows come last, since everything else would be measured among them.
STEPS: dict[str, Step] = {
    "counts": count,
    "lifecycles": lifecycles,
    "raw": raw_driver,
    "calls": calls,
    "rounds": rounds,
    "worker": worker,
    "start": start,
    "api": api,
    "lookups": lookups,
    "queue": queue,
    "sweep": sweep,
}


def measure(ground: Ground, extent: Extent, only: list[str]) -> Iterator[tuple[str, Figures]]:
    """The figures of one database, step by step; `only` names steps, none all of them."""
    ground.command("migrate", "--verbosity=0")
    server = ground.measure("server")
    ground.version, ground.server_pid = server["version"], server["pid"]
    known: Figures = {}
    for name in STEPS:
        if only and name not in only:
            continue
        figures = STEPS[name](ground, extent)
        known |= figures
        if name == "raw" and "lifecycles_per_s_2" in known:
            figures["share_of_raw"] = known["lifecycles_per_s_2"] / known["raw_lifecycles_per_s_2"]
        yield name, figures
