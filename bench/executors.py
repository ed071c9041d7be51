"""Partitions that run side by side, beside the same network's in turn.

Without networks it is a synthetic one of two towers of convolutions that meet in a sum, each a
branch of one thread. `turn` is the linear executor on one thread, which is what each branch has;
`turn, all` has all the threads in every step; `side` is the parallel executor. All three take turns
round by round, on the same input, and their answers are compared bit for bit. The bar is 1.4 for
the towers: `turn` over `side`, the median of rounds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter_ns

import numpy as np

from bench.arguments import add_rounds, parser
from circlet import Session
from circlet.formats import dumps
from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.geometry import SAME_UPPER
from circlet.profiling.profiler import random_inputs
from circlet.runtime.calls import BoundCall

BAR = 1.4
_SIZE, _CHANNELS, _DEPTH = 56, 64, 6
_WAYS = ("turn", "turn, all", "side")


def two_towers() -> bytes:
    """Two towers of float convolutions over one image, and their sum."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, _SIZE, _SIZE, _CHANNELS))
    ends = [_tower(b, x, name) for name in ("left", "right")]
    return dumps(b.output(b.op("ADD", ends, name="sum")).model(), "tflite")


def _tower(b: Builder, x: Tensor, name: str) -> Tensor:
    random, t = np.random.default_rng(len(name)), x
    for index in range(_DEPTH):
        values = random.normal(0, 0.04, (_CHANNELS, 3, 3, _CHANNELS)).astype(np.float32)
        weights = b.constant(f"{name} {index} weights", values)
        attrs = Conv2DAttrs(SAME_UPPER, (1, 1))
        t = b.op("CONV_2D", [t, weights, None], attrs, name=f"{name} {index}")
    return t


def bound(source: bytes | Path, threads: int) -> tuple[list[BoundCall], int]:
    """A call for each way, over the same inputs; and the partitions of the last."""
    ways = (("linear", 1), ("linear", threads), ("parallel", threads))
    sessions = [Session(source, executor=name, threads=count) for name, count in ways]
    inputs = random_inputs(sessions[0])
    return [each.bind(inputs) for each in sessions], len(sessions[-1].opened.partitions)


def rounds_of(calls: Sequence[BoundCall], rounds: int) -> list[list[float]]:
    """Microseconds of each call, round by round; the first rounds do not count."""
    found: list[list[float]] = [[] for _ in calls]
    for number in range(rounds + 3):
        for call, times in zip(calls, found, strict=True):
            start = perf_counter_ns()
            call()
            if number >= 3:
                times.append((perf_counter_ns() - start) / 1e3)
    return found


def measured(title: str, source: bytes | Path, threads: int, rounds: int) -> float:
    """Print a line on one network; the median ratio of `turn` over `side`."""
    calls, partitions = bound(source, threads)
    times = rounds_of(calls, rounds)
    for call in calls[1:]:
        for got, wanted in zip(call.outputs, calls[0].outputs, strict=True):
            np.testing.assert_array_equal(got, wanted)
    ratios = [turn / side for turn, _, side in zip(*times, strict=True)]
    low, *_, high = quantiles(ratios, n=20)
    shown = "  ".join(f"{way} {median(own):9.1f} us" for way, own in zip(_WAYS, times, strict=True))
    print(
        f"{title:32} {partitions:3} partitions  {shown}  "
        f"turn / side {median(ratios):.2f} ({low:.2f} to {high:.2f})",
        flush=True,
    )
    return median(ratios)


def main(arguments: Sequence[str]) -> None:
    """Print a line per network; the exit status is 1 where the towers are below the bar."""
    known = parser("executors", __doc__)
    known.add_argument("paths", nargs="*", type=Path, help="networks; else the synthetic one")
    known.add_argument("--threads", type=int, default=2, help="of a run in all")
    add_rounds(known, 200)
    options = known.parse_args(arguments)
    if options.paths:
        for path in options.paths:
            measured(path.stem, path, options.threads, options.rounds)
        return
    ratio = measured("two towers", two_towers(), options.threads, options.rounds)
    print(f"the bar is {BAR}: {'met' if ratio >= BAR else 'missed'}")
    sys.exit(ratio < BAR)
