"""How many cores this process has, and how many threads it should use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

_CGROUP = "/sys/fs/cgroup"
_MEMBERSHIP = "/proc/self/cgroup"


def usable_cores() -> int:
    """The cores that the affinity mask lets this process be scheduled on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_threads() -> int:
    """The usable cores, or fewer where a cgroup quota grants less time than they have."""
    return max(1, int(min(usable_cores(), _quota())))


def _quota() -> float:
    """The cores' worth of time that the cgroups grant, rounded up; infinite without a limit."""
    limits = [_read(f"{folder}/cpu.max").split() for folder in _own_folders()]
    limits.append([_read(f"{_CGROUP}/cpu/cpu.cfs_{name}_us") for name in ("quota", "period")])
    return min(map(_cores, limits))


def _cores(limit: list[str]) -> float:
    if len(limit) != 2 or not all(text.isdigit() and int(text) for text in limit):
        return math.inf
    return math.ceil(int(limit[0]) / int(limit[1]))


def _own_folders() -> Iterator[str]:
    """The cgroup (version 2) of this process and those that contain it."""
    rows = (line.split(":", 2) for line in _read(_MEMBERSHIP).splitlines())
    own = next((row[2] for row in rows if row[0] == "0" and len(row) == 3), "/")
    folder = own.strip("/")
    while folder:
        yield f"{_CGROUP}/{folder}"
        folder = folder.rpartition("/")[0]
    yield _CGROUP


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
