"""What a run counts: kinds, points, endings, and how long it took until the rows were true again."""

from __future__ import annotations

import os
import platform
from collections import Counter
from typing import TYPE_CHECKING

from tests.proof.faults import IN_CHILDREN, KINDS, RESTART
from tests.proof.points import POINTS

if TYPE_CHECKING:
    from tests.proof.schedule import Schedule


class Report:
    def __init__(self, count: int, seed: int, first: int) -> None:
        self.count, self.seed, self.first = count, seed, first
        self.schedules = 0
        self.kinds: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.after: dict[str, list[float]] = {kind: [] for kind in KINDS}

    def add(self, schedule: Schedule) -> None:
        self.schedules += 1
        self.ended += schedule.ended
        self.reached += schedule.injector.reached
        for one in schedule.injections:
            self.kinds[one.kind] += 1
            if one.where in POINTS:
                self.broken[one.where] += 1
            if one.after is not None:
                self.after[one.kind].append(one.after)

    def line(self, seconds: float, reached: int) -> str:
        total = self.kinds.total()
        return f"{total} injections in {seconds:.0f} s ({total / seconds:.1f}/s), nothing wrong; next: FROM={reached}"

    def table(self, seconds: float) -> str:
        total, apart = self.kinds.total(), sum(self.kinds[kind] for kind in (*IN_CHILDREN, RESTART))
        every = [after for kind in KINDS for after in self.after[kind]]
        lines = [
            f"{total} injections from {self.first}, seed {self.seed}: {total - apart} in process, "
            f"{apart - self.kinds[RESTART]} by SIGKILL and SIGSTOP, {self.kinds[RESTART]} database restarts",
            f"{seconds / 60:.1f} minutes, {total / seconds:.1f}/s; {os.cpu_count()} cores, {platform.machine()}, "
            f"Python {platform.python_version()}; lease 1 s, {self.schedules} schedules",
            "",
            f"{'what was broken':36} {'times':>6}   time to truth: p50 and p95",
        ]
        lines += [f"{kind:36} {self.kinds[kind]:6}   {_spread(self.after[kind])}" for kind in KINDS]
        lines += [f"{'all':36} {total:6}   {_spread(every)}", ""]
        lines += [f"{name:36} {count:6}" for name, count in sorted(self.ended.items())]
        lines += ["", "points and how often something broke there:"]
        lines += [
            f"{number:4} {point:60} {self.broken[point]:5} of {self.reached[point]}"
            for number, point in enumerate(POINTS, start=1)
        ]
        lines += ["", "0 double dispatches, 0 lost decisions, 0 rows that lie, 0 sessions stuck after two sweeps: good"]
        return "\n".join(lines)


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return ""
    ordered = sorted(seconds)
    return f"{ordered[len(ordered) // 2]:.2f} s, {ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]:.2f} s"
