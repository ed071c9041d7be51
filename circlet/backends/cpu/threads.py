"""How many threads this process should use."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def default_threads() -> int:
    """The cores that the affinity mask and the cgroup quota leave to this process."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, int(min(cores, _quota())))


def _quota() -> float:
    """The cores' worth of time that the cgroup grants, of either version; infinite without one."""
    limit, _, period = _read("cpu.max").partition(" ")
    if not limit:
        limit, period = _read("cpu/cpu.cfs_quota_us"), _read("cpu/cpu.cfs_period_us")
    if not limit.isdigit() or not period.isdigit() or int(period) == 0:
        return math.inf
    return math.ceil(int(limit) / int(period))


def _read(name: str) -> str:
    try:
        return (_CGROUP / name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
