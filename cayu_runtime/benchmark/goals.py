"""What is measured, in the order of the table, and what each figure is to reach."""

from __future__ import annotations

from dataclasses import dataclass

SQLITE, POSTGRES = "sqlite", "postgres"


@dataclass(frozen=True, slots=True)
class Goal:
    """`reach`: at least that much, or at most where `less` is better. `floor` is what it must not fall below."""

    reach: float
    floor: float | None = None
    less: bool = False

    def reached_by(self, value: float) -> bool:
        return value <= self.reach if self.less else value >= self.reach

    def __str__(self) -> str:
        floor = f" (floor {self.floor:g})" if self.floor is not None else ""
        return f"{'≤' if self.less else '≥'} {self.reach:g}{floor}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `goals` by database; none: it is shown for what it explains."""

    name: str
    words: str
    unit: str
    goals: dict[str, Goal]


def at_least(reach: float, floor: float | None = None) -> dict[str, Goal]:
    return dict.fromkeys((SQLITE, POSTGRES), Goal(reach, floor))


def at_most(reach: float) -> dict[str, Goal]:
    return dict.fromkeys((SQLITE, POSTGRES), Goal(reach, less=True))


FIGURES = (
    Figure("lifecycles_per_s_1", "lifecycles, one process", "/s", {}),
    Figure(
        "lifecycles_per_s_2", "lifecycles, two processes", "/s",
        {SQLITE: Goal(70, 50), POSTGRES: Goal(60, 40)},
    ),
    Figure("two_processes_to_one", "two processes to one", "×", {POSTGRES: Goal(1.6)}),
    Figure("raw_lifecycles_per_s_1", "plain driver, same statements, one process", "/s", {}),
    Figure("raw_lifecycles_per_s_2", "plain driver, same statements, two processes", "/s", {}),
    Figure("share_of_raw", "two processes to the plain driver's two", "×", at_least(0.5)),
    Figure("cpu_ms_client", "CPU of a lifecycle, client", "ms", {}),
    Figure("cpu_ms_server", "CPU of a lifecycle, server", "ms", {}),
    Figure("raw_cpu_ms_client", "CPU of a lifecycle by the plain driver, client", "ms", {}),
    Figure("ms_per_durable_call", "one durable call (intent, settlement)", "ms", {}),
    Figure("commits_per_lifecycle", "commits of a lifecycle", "", at_most(13)),
    Figure("commits_per_approved_call", "commits of an approved call", "", at_most(4)),
    Figure("statements_per_lifecycle", "statements of a lifecycle", "", at_most(80)),
    Figure(
        "bytes_per_lifecycle", "stored by a lifecycle", "bytes",
        {SQLITE: Goal(15_000, less=True), POSTGRES: Goal(18_000, less=True)},
    ),
    Figure("ms_per_round_10", "a round, at round 10 of a session", "ms", {}),
    Figure("ms_per_round_100", "a round, at round 100", "ms", {}),
    Figure("ms_per_round_500", "a round, at round 500", "ms", {}),
    Figure("round_500_to_10", "round 500 to round 10", "×", at_most(1.2)),
    Figure("queue_selector_ms_100", "queue of 100: selector", "ms", {}),
    Figure("queue_selector_ms_10000", "queue of 10,000: selector", "ms", at_most(10)),
    Figure("queue_selector_ms_100000", "queue of 100,000: selector", "ms", {}),
    Figure("queue_selector_100000_to_10000", "selector, 100,000 to 10,000", "×", at_most(1.2)),
    Figure("queue_page_ms_100", "queue of 100: whole page", "ms", {}),
    Figure("queue_page_ms_10000", "queue of 10,000: whole page", "ms", at_most(60)),
    Figure("queue_page_ms_100000", "queue of 100,000: whole page", "ms", {}),
    Figure("queue_page_100000_to_10000", "whole page, 100,000 to 10,000", "×", at_most(1.2)),
    Figure("queue_page_queries", "queries of the page, most at any size", "", {}),
    Figure("queue_page_queries_more", "queries of the page, more at the largest size", "", at_most(0)),
    Figure("dispatch_p50_ms", "decision → dispatch through a worker, p50", "ms", {}),
    Figure("dispatch_p95_ms", "decision → dispatch through a worker, p95", "ms", at_most(250)),
    Figure("end_to_end_lifecycles_per_s", "lifecycles through `manage.py worker`", "/s", at_least(40, 25)),
    Figure("cpu_ms_worker", "CPU of a lifecycle, all processes of the worker", "ms", {}),
    Figure("idle_cpu_percent", "CPU of an idle worker", "%", at_most(5)),
    Figure("command_start_s", "start of `manage.py`", "s", at_most(1)),
    Figure("api_read_p50_ms", "API, 4 clients at once: a read, p50", "ms", {}),
    Figure("api_read_p95_ms", "API, 4 clients at once: a read, p95", "ms", at_most(25)),
    Figure("api_start_p50_ms", "API, 4 clients at once: start of a session, p50", "ms", {}),
    Figure("api_start_p95_ms", "API, 4 clients at once: start of a session, p95", "ms", at_most(40)),
    Figure("lookups_per_s_100", "lookups of 100 unknown effects", "/s", at_least(50)),
    Figure("lookups_per_s_1000", "lookups of 1,000 unknown effects", "/s", at_least(50)),
    Figure("sweep_ms_10000", "sweep, 100 stuck sessions, 10,000 finished", "ms", at_most(50)),
    Figure("sweep_ms_100000", "sweep, 100 stuck sessions, 100,000 finished", "ms", at_most(50)),
)  # fmt: skip
