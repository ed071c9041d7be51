"""Where a network's time goes: every kernel call beside what the machine could do.

Printed per kernel call, in order: the least time of its runs and its share of their sum, GOP/s (two
operations a multiply-accumulate; GFLOP/s for floats), GB/s (every operand counted once), what the
roofline allows at most (measured peaks of arithmetic, and of the cache level that the operands fit)
as a share of the time taken, whether arithmetic or memory sets that limit, and source operators.

A network with integers is set beside the same network in floats, operator by operator, with the
reason, from these figures, where integers are not at least 1.2 times faster.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bench.arguments import add_target, parser
from bench.explain_rows import Row, explained
from bench.float_twin import float_twin
from bench.reasons import Beside, beside
from bench.steps import Profile, profile
from circlet.backends.cpu.profiling.peaks import measured_peaks
from circlet.backends.profiled import LEVELS_BYTES, Peaks
from circlet.comparison.networks import classified
from circlet.errors import CircletError
from circlet.escape import escaped
from circlet.target.targets import parse_target
from circlet.words import counted, shortened


def main(arguments: list[str]) -> None:
    """Print the table of one network."""
    known = parser("explain", __doc__)
    known.add_argument("model", type=Path, help="a network")
    known.add_argument("--threads", type=int, default=1, help="of the run that is timed")
    known.add_argument(
        "--top", type=int, default=0, help="the slowest, so many; 0 for all in order"
    )
    known.add_argument("--seconds", type=float, default=0.6, help="time to measure for")
    known.add_argument("--json", type=Path, help="file for the rows")
    add_target(known)
    options = known.parse_args(arguments)
    found = profile(options.model, options.threads, options.seconds, options.target)
    peaks = measured_peaks(parse_target(options.target))
    rows = explained(found, peaks)
    pairs = _beside(options.model, found, peaks, options)
    if options.json:
        record = {"peaks": peaks.as_json(), "rows": [asdict(row) for row in rows]}
        record["beside_floats"] = [asdict(pair) for pair in pairs]
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    _show(rows, found, peaks, options.top)
    _show_beside(pairs, options.top)


def _beside(model: Path, found: Profile, peaks: Peaks, options: argparse.Namespace) -> list[Beside]:
    if classified(model) == "fp32":
        return []
    try:
        twin = profile(float_twin(model), found.threads, options.seconds, options.target)
    except CircletError as error:
        print(f"not all of it has a float form: {escaped(error.what)}")
        return []
    return beside(found, twin, peaks)


def _show(rows: list[Row], found: Profile, peaks: Peaks, top: int) -> None:
    steps = sum(row.us for row in rows)
    print(
        f"one call {found.call_us:.1f} us, its {len(rows)} kernel calls {steps:.1f} us, "
        f"numpy {found.numpy_us:.1f} us, {counted(found.threads, 'thread')}"
    )
    print(
        f"peaks of a core: {peaks.fp32_gflops:.0f} GFLOP/s fp32, {peaks.int8_gops:.0f} GOP/s int8, "
        f"{peaks.int16_gops:.0f} GOP/s int16, read "
        + "/".join(f"{rate:.0f}" for rate in peaks.read_gbs)
        + " GB/s of "
        + "/".join(f"{size >> 10}" for size in LEVELS_BYTES)
        + " KiB"
    )
    print("        us     %    GOP/s   GB/s  roof%  bound       kind / kernel / source")
    shown = sorted(rows, key=lambda row: -row.us)[:top] if top else rows
    for row in shown:
        print(
            f"{row.us:10.2f} {100 * row.share:5.1f} {row.gops:8.1f} {row.gbs:6.1f} "
            f"{100 * row.roof:6.1f}  {row.bound:10}  {row.kind} / {row.kernel} / "
            f"{shortened(escaped(row.source))}"
        )
    if rows:
        least = sum(row.roof * row.us for row in rows)
        share = f"{100 * least / steps:.0f} % of it"
        print(f"the roofline of all kernel calls is {least:.1f} us, {share}")


def _show_beside(pairs: list[Beside], top: int) -> None:
    if not pairs:
        return
    print("\n        us  float us  ratio  source / why integers are not faster")
    for pair in sorted(pairs, key=lambda pair: -pair.us)[:top] if top else pairs:
        reason = f" / {pair.reason}" if pair.reason else ""
        ratio = pair.float_us / max(pair.us, 1e-3)
        times = f"{pair.us:10.2f} {pair.float_us:9.2f} {ratio:6.2f}"
        print(f"{times}  {shortened(escaped(pair.sources))}{reason}")
