"""Loops that update their variables where these lie, and loops within loops over bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlet.backends.cpu.updates import turn_updates
from circlet.ir import DType, Graph, Tensor
from circlet.ir.builder import Builder
from circlet.limits import DEFAULT_LIMITS
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from circlet.plan.shapes import fix_shapes
from tests.backends.cpu.harness import check_native
from tests.backends.cpu.test_updates import copies
from tests.plan.loops import compared, loop, number

ROWS, TURNS = 6, 5
Turn = Callable[[Builder, list[Tensor]], list[Tensor]]


def stacking(turn: Turn) -> Graph:
    """A loop over the number of the turn, a stack, and another tensor of its size."""
    main = builder("main")
    given = [main.input("turn", DType.INT64, ())]
    given += [main.input(name, DType.INT64, (ROWS, 1)) for name in ("stack", "other")]
    op = loop(given, compared("LESS", 0, TURNS), turn, shapes=[t.shape for t in given])
    main.op_many("WHILE", list(op.inputs), op.outputs)
    graph = main.output(*op.outputs).build()
    graph.ops[0].regions = op.regions
    fix_shapes(graph, DEFAULT_LIMITS)
    return graph


def updated(b: Builder, stack: Tensor, turn: Tensor) -> Tensor:
    sizes = [b.constant("sizes", np.array(each, np.int32)) for each in ([1, 1], [1])]
    row, at = (b.op("RESHAPE", [turn, size]) for size in sizes)
    row.shape, at.shape = (1, 1), (1,)
    zero = b.constant("zero", np.array([0], np.int64))
    start = b.op("CONCATENATION", [at, zero], ConcatenationAttrs(0))
    return b.op("DYNAMIC_UPDATE_SLICE", [stack, row, start])


def plain(b: Builder, v: list[Tensor]) -> list[Tensor]:
    made = updated(b, v[1], v[0])
    return [b.op("ADD", [v[0], number(b, 1)]), made, b.op("ADD", [v[2], made])]


def read_before(b: Builder, v: list[Tensor]) -> list[Tensor]:
    seen = b.op("ADD", [v[1], v[2]])
    return [b.op("ADD", [v[0], number(b, 1)]), updated(b, v[1], v[0]), seen]


def read_after(b: Builder, v: list[Tensor]) -> list[Tensor]:
    made = updated(b, v[1], v[0])
    return [b.op("ADD", [v[0], number(b, 1)]), made, b.op("ADD", [v[1], v[2]])]


def taken_over(b: Builder, v: list[Tensor]) -> list[Tensor]:
    return [b.op("ADD", [v[0], number(b, 1)]), updated(b, v[1], v[0]), v[1]]


def crossed(b: Builder, v: list[Tensor]) -> list[Tensor]:
    return [b.op("ADD", [v[0], number(b, 1)]), v[2], updated(b, v[1], v[0])]


@pytest.mark.parametrize(
    ("turn", "count"),
    [(plain, 1), (read_before, 1), (read_after, 0), (taken_over, 0), (crossed, 0)],
)
def test_a_variable_is_updated_where_it_lies_if_nobody_misses_it(turn: Turn, count: int) -> None:
    graph = stacking(turn)
    assert len(turn_updates(graph.ops[0])) == count
    stack, other = (np.arange(ROWS)[:, None] * step for step in (10, 100))
    check_native(graph, [np.array(0), stack, other])


def test_an_update_in_place_copies_no_variable_in_a_turn() -> None:
    assert copies(stacking(plain)) < copies(stacking(read_after))
