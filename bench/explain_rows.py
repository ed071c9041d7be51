"""Kernel calls beside the roofline, as rows."""

from __future__ import annotations

from dataclasses import dataclass

from bench.steps import Profile
from circlet.backends.profiled import Peaks
from circlet.profiling.roofline import Machine, TimedWork, least_times


@dataclass(frozen=True)
class Row:
    """One kernel call as it is shown.

    `roof` is the share of the roofline that it reaches, `bound` what sets the roofline.
    """

    kernel: str
    kind: str
    source: str
    us: float
    share: float
    gops: float
    gbs: float
    roof: float
    bound: str
    macs: int
    bytes: int
    unit: str


def explained(found: Profile, peaks: Peaks) -> list[Row]:
    """A row per kernel call, in order."""
    total = sum(row.us for row in found.rows) + found.numpy_us
    return [_row(row, found, peaks, total) for row in found.rows]


def roofline_us(row: TimedWork, found: Profile, peaks: Peaks) -> tuple[float, float]:
    """The least time of arithmetic and of memory, in microseconds."""
    least = least_times(row.work, Machine(peaks, found.threads, found.resident_bytes))
    return least.arithmetic, least.memory


def _row(row: TimedWork, found: Profile, peaks: Peaks, total: float) -> Row:
    arithmetic, memory = roofline_us(row, found, peaks)
    work, us = row.work, max(row.us, 1e-3)
    return Row(
        kernel=work.kernel,
        kind=work.kind,
        source="+".join(name for _, name in work.sources),
        us=row.us,
        share=row.us / total if total else 0.0,
        gops=2 * work.macs / us / 1e3,
        gbs=work.bytes / us / 1e3,
        roof=max(arithmetic, memory) / us,
        bound="arithmetic" if arithmetic >= memory else "memory",
        macs=work.macs,
        bytes=work.bytes,
        unit=work.unit,
    )
