"""Loops as graphs, for what a plan can tell of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.opdef import NoAttrs

Ends = Callable[[Builder, list[Tensor]], Tensor]
Turns = Callable[[Builder, list[Tensor]], list[Tensor]]


def number(b: Builder, value: int, dtype: type = np.int64) -> Tensor:
    return b.constant("number", np.array(value, dtype))


def compared(kind: str, first: int, second: int | Tensor) -> Ends:
    """A condition between a variable, and another one or a number."""

    def end(b: Builder, variables: list[Tensor]) -> Tensor:
        other = number(b, second) if isinstance(second, int) else second
        return b.op(kind, [variables[first], other], dtype=DType.BOOL)

    return end


def loop(
    start: list[Tensor],
    condition: Ends,
    turn: Turns,
    shapes: Sequence[tuple[int | None, ...]] = (),
) -> Op:
    """A WHILE over variables that start as these tensors; turns change their first sizes.

    Args:
        shapes: The shapes of the variables, where turns change no size, or others.
    """
    regions: list[Graph] = []
    for name in ("condition", "body"):
        b = builder(name)
        shapes = [(None, *t.shape[1:]) if t.shape else () for t in start]
        variables = [b.input(t.name, t.dtype, s) for t, s in zip(start, shapes, strict=True)]
        ends = [condition(b, variables)] if name == "condition" else turn(b, variables)
        regions.append(b.output(*ends).build())
    results = [Tensor(f"{t.name} after", t.dtype, t.shape) for t in start]
    for result, inner in zip(results, regions[1].outputs, strict=True):
        result.shape = inner.shape
    op = Op("WHILE", list(start), results, NoAttrs(), Origin.of(0, "loop"))
    op.regions = regions
    return op
