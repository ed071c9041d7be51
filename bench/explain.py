"""Where a network's time goes: every kernel call beside what the machine could do.

    python -m bench explain MODEL [--threads 1] [--top 30] [--json FILE]

Printed per kernel call, in order: its median time and share of the run, GOP/s (two operations a
multiply-accumulate; GFLOP/s for floats), GB/s (every operand counted once), what the roofline
allows at most (measured peaks of arithmetic, and of the cache level that the operands fit) as a
share of the time taken, whether arithmetic or memory sets that limit, and source operators.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.roofline import Peaks, measured_peaks
from bench.steps import Profile, TimedWork, profile


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
    """The least time of arithmetic and of memory, in microseconds.

    Weights come from where all that a run goes through fits, activations from where those of the
    call fit: they were written a moment ago.
    """
    work = row.work
    arithmetic = 2 * work.macs / peaks.gops(work.unit)
    weights = work.constant_bytes / peaks.bandwidth(found.resident_bytes)
    memory = weights + work.data_bytes / peaks.bandwidth(work.bytes)
    return arithmetic / found.threads / 1e3, memory / found.threads / 1e3


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


def main(arguments: list[str]) -> None:
    """Print the table of one network."""
    parser = argparse.ArgumentParser("bench explain", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--top", type=int, default=0, help="only so many, the slowest first")
    parser.add_argument("--seconds", type=float, default=0.6, help="time to measure for")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args(arguments)
    found = profile(options.model, options.threads, options.seconds)
    peaks = measured_peaks()
    rows = explained(found, peaks)
    if options.json:
        record = {"peaks": peaks.as_json(), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    _show(rows, found, peaks, options.top)


def _show(rows: list[Row], found: Profile, peaks: Peaks, top: int) -> None:
    steps = sum(row.us for row in rows)
    print(
        f"one call {found.call_us:.1f} us, its {len(rows)} kernel calls {steps:.1f} us, "
        f"numpy {found.numpy_us:.1f} us, {found.threads} threads"
    )
    print(
        f"peaks of a core: {peaks.fp32_gflops:.0f} GFLOP/s fp32, {peaks.int8_gops:.0f} GOP/s int8, "
        f"{peaks.int16_gops:.0f} GOP/s int16, read "
        + "/".join(f"{rate:.0f}" for rate in peaks.read_gbs)
        + " GB/s from L1/L2/L3/memory"
    )
    print("        us     %    GOP/s   GB/s  roof%  bound       kind / kernel / source")
    shown = sorted(rows, key=lambda row: -row.us)[:top] if top else rows
    for row in shown:
        print(
            f"{row.us:10.2f} {100 * row.share:5.1f} {row.gops:8.1f} {row.gbs:6.1f} "
            f"{100 * row.roof:6.1f}  {row.bound:10}  {row.kind} / {row.kernel} / "
            f"{_shortened(row.source)}"
        )
    least = sum(row.roof * row.us for row in rows)
    print(f"the roofline of all kernel calls is {least:.1f} us, {100 * least / steps:.0f} % of it")


def _shortened(name: str, width: int = 60) -> str:
    return name if len(name) <= width else f"...{name[3 - width :]}"
