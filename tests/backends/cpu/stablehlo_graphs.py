"""Graphs of StableHLO kinds that read, write or join where windows lie."""

from __future__ import annotations

from circlet.ir import DType, Graph
from circlet.ops.build import builder
from circlet.ops.stablehlo.indexed import GatherAttrs, ScatterAttrs
from circlet.ops.stablehlo.reduce import StablehloReduceWindowAttrs


def body(kind: str, dtype: DType) -> Graph:
    """A graph that joins two elements; "" gives the second."""
    b = builder("body", 900)
    pair = [b.input(name, dtype, ()) for name in ("a", "b")]
    return b.output(b.op(kind, pair, name="joined") if kind else pair[1]).build()


def joined_windows(name: str = "") -> Graph:
    """A gather, a scatter and sums of windows; the name is for people."""
    b = builder(name or "main")
    x, at = b.input("x", DType.FLOAT32, (4, 5)), b.input("at", DType.INT32, (3, 1))
    start = b.input("start", DType.FLOAT32, ())
    rows = b.op("STABLEHLO_GATHER", [x, at], GatherAttrs((1,), (0,), (0,), 1, (1, 5)), name="rows")
    places = ScatterAttrs(False, (1,), (0,), (0,), 1)
    placed = b.op("STABLEHLO_SCATTER", [x, at, rows], places, name="placed")
    b.graph.ops[-1].regions = [body("STABLEHLO_ADD", DType.FLOAT32)]
    sums = b.op(
        "STABLEHLO_REDUCE_WINDOW", [placed, start], StablehloReduceWindowAttrs((2, 2)), name="sums"
    )
    b.graph.ops[-1].regions = [body("STABLEHLO_ADD", DType.FLOAT32)]
    return b.output(sums).build()
