"""What else the machine did while it measured: the CPU time of processes that are not ours."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MOST_CORES = 0.2
"""Cores that others may use, all together, for figures to be trusted."""

_STAT = Path("/proc/stat")
_BUSY = (0, 1, 2, 5, 6, 7)  # user, nice, system, interrupts, software interrupts, stolen
_LOOK_S = 1.0
_BEFORE, _DURING = "others_before", "others_during"


@dataclass(frozen=True)
class Moment:
    """Seconds of the clock, and of CPU time so far.

    Attributes:
        at: Of the clock.
        busy: Of all processes, and of other guests, on the CPUs that this process may use.
        own: Of this process and those that it started and that have ended.
    """

    at: float
    busy: float
    own: float

    @classmethod
    def now(cls) -> Moment:
        """This moment; no process that was started may still run."""
        text = _STAT.read_text(encoding="utf-8")
        busy = busy_seconds(text, os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK"))
        return cls(time.perf_counter(), busy, sum(os.times()[:4]))

    def others_until(self, later: Moment) -> float:
        """Cores that others used between two moments, or in a second where they lie nearer."""
        foreign = (later.busy - self.busy) - (later.own - self.own)
        return max(0.0, foreign / max(later.at - self.at, _LOOK_S))


def busy_seconds(stat: str, cpus: set[int], ticks: int) -> float:
    """CPU time of some CPUs, of what /proc/stat holds."""
    lines = (line.split() for line in stat.splitlines())
    named = {words[0]: words[1:] for words in lines if words}
    rows = [named[f"cpu{cpu}"] for cpu in cpus if f"cpu{cpu}" in named]
    return sum(int(row[column]) for row in rows for column in _BUSY) / ticks


class Watch:
    """Looks at the machine before and while it measures."""

    def __init__(self) -> None:
        begin = Moment.now()
        time.sleep(_LOOK_S)
        self._begin = Moment.now()
        self._before = begin.others_until(self._begin)

    def facts(self) -> dict[str, float]:
        """Cores that others used, before and since."""
        during = self._begin.others_until(Moment.now())
        return {_BEFORE: round(self._before, 2), _DURING: round(during, 2)}


def reason(machine: Mapping[str, object]) -> str:
    """Why figures of a machine cannot be trusted, or "": by what a watch saw, else by its load."""
    seen = [float(str(machine[key])) for key in (_BEFORE, _DURING) if key in machine]
    if seen:
        return f"other processes used {max(seen):g} cores" if max(seen) > MOST_CORES else ""
    load, cpus = (float(str(machine.get(key, 1))) for key in ("load", "cpus"))
    return f"a load of {load:g} on {cpus:g} CPUs" if load > cpus else ""
