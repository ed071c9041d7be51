"""MatMulInteger of operands and zero points that a run gives: the record's sums, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, product
from typing import NamedTuple

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.lowering import LOWERINGS
from circlet.errors import GraphError
from circlet.ir import DType, Tensor
from circlet.ops.onnx.integer_sums import fits_zero_points
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Cases, each_width
from tests.backends.cpu.harness import run_native
from tests.backends.cpu.test_integer_sums import BYTES, add_sums

Shape = tuple[int, ...]
COMPUTED, CONSTANT = "computed", "constant"


class Pair(NamedTuple):
    """Sizes of both operands, and of their zero points; None where there are none."""

    left: Shape
    right: Shape
    left_zeros: Shape | None = ()
    right_zeros: Shape | None = ()


PAIRS = (
    Pair((6, 64), (64, 70)),
    Pair((1, 3), (3, 5), None, None),
    Pair((17, 7), (7, 33), (17,), (33,)),
    Pair((5, 1), (1, 1), (5, 1), (1, 1)),
    Pair((9, 130), (130, 16), (9, 1), (1, 16)),
    Pair((3, 4, 20), (3, 20, 18), (3, 4, 1), (3, 1, 18)),
    Pair((3, 4, 20), (3, 20, 18), (3, 1, 1), (1, 1, 18)),
    Pair((2, 3, 4, 20), (20, 18), (2, 3, 4, 1), (18,)),
    Pair((2, 3, 4, 20), (20, 18), (4,), (1,)),
    Pair((4, 20), (2, 3, 20, 18), (4,), (2, 1, 1, 18)),
    Pair((2, 1, 4, 20), (1, 3, 20, 18), (2, 1, 4, 1), (1, 3, 1, 18)),
    Pair((2, 3, 4, 20), (3, 20, 18), None, (3, 1, 1)),
    Pair((2, 3, 4, 20), (2, 1, 20, 18), (), None),
    Pair((20,), (20, 18), (), (18,)),
    Pair((20,), (3, 20, 18), (1,), (3, 1, 1)),
    Pair((7, 20), (20,), (7,), ()),
    Pair((3, 7, 20), (20,), (3, 7, 1), (1,)),
    Pair((20,), (20,)),
    Pair((40, 20), (20, 1), (40,), (1,)),
    Pair((2, 40, 20), (20, 1), (40,), ()),
    Pair((2, 40, 20), (2, 20, 1), (2, 40, 1), (2, 1, 1)),
    Pair((2, 40, 20), (20, 1), (1, 40, 1), None),
)
# A few rows, and columns that fill registers.
FEW_ROWS = (
    Pair((1, 64), (64, 70)),
    Pair((1, 37), (37, 300), (1,), (300,)),
    Pair((3, 1, 18), (3, 18, 130), (3, 1, 1), (1, 1, 130)),
    Pair((2, 3, 2, 19), (3, 19, 64), (2, 3, 2, 1), (3, 1, 64)),
    Pair((4, 3), (3, 90), (4,), None),
    Pair((2, 2, 9), (9, 65), None, ()),
    Pair((3, 2), (2, 2, 128), (3, 1), (2, 1, 1)),
    Pair((1,), (1, 64)),
)


def operand(cases: Cases, dtype: DType, shape: Shape, how: str) -> Tensor:
    """Random bytes."""
    if how == COMPUTED:
        return cases.data(dtype, shape, None)
    return cases.constant(cases.values(dtype, shape))


def add(cases: Cases, pair: Pair, types: Sequence[DType], hows: Sequence[str]) -> None:
    """A MatMulInteger of both types, its matrices and its zero points given or constant."""
    given = zip(pair, (*types, *types), hows, strict=True)
    operands = [None if s is None else operand(cases, t, s, how) for s, t, how in given]
    add_sums(cases, "MatMulInteger", operands)


def cross_sums() -> Cases:
    """Every pair of sizes, with every pair of types and constant operands in turn."""
    cases = Cases()
    types = cycle(product(BYTES, BYTES))
    hows = cycle(
        (
            (COMPUTED, COMPUTED, COMPUTED, COMPUTED),
            (COMPUTED, COMPUTED, CONSTANT, CONSTANT),
            (COMPUTED, CONSTANT, COMPUTED, COMPUTED),
            (CONSTANT, COMPUTED, COMPUTED, CONSTANT),
            (COMPUTED, CONSTANT, CONSTANT, CONSTANT),
        )
    )
    for pair, both in product((*PAIRS, *FEW_ROWS), range(2)):
        first, how = next(types), next(hows)
        add(cases, pair, first if both else first[::-1], how)
    for pair, each in product((PAIRS[0], FEW_ROWS[1], FEW_ROWS[3]), product(BYTES, BYTES)):
        add(cases, pair, each, (COMPUTED,) * 4)
    return cases


@each_width
def test_sums_of_computed_bytes_equal_the_record(target: str) -> None:
    cases = cross_sums()
    for op in cases.graph().ops:
        assert not isinstance(LOWERINGS.choose(op, parse_target("native")), str)
    cases.check(target, threads=2, tolerance=0)


def test_few_rows_meet_columns_where_they_lie() -> None:
    for rows, columns, name in (
        (1, 64, "cross_rows_q8"),
        (4, 300, "cross_rows_q8"),
        (1, 63, "pack_sums_q8"),
        (5, 300, "pack_sums_q8"),
    ):
        cases = Cases()
        add(cases, Pair((rows, 30), (30, columns)), BYTES, (COMPUTED,) * 4)
        graph = cases.graph()
        (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
        steps = compile_partition(whole, parse_target("x86_64+v4+avx512vnni"), 1).steps
        assert name in {kernel for _, kernel in steps}


def test_random_products_equal_numpy() -> None:
    cases, random, wanted = Cases(), np.random.default_rng(7), []
    for _ in range(24):
        rows = int(random.choice([random.integers(1, 5), random.integers(1, 90)]))
        depth, columns = (int(size) for size in random.integers(1, 140, 2))
        stack = tuple(int(size) for size in random.integers(1, 4, random.integers(0, 3)))
        left, right = (
            tuple(int(size) if random.random() < 0.7 else 1 for size in stack) for _ in range(2)
        )
        types = [BYTES[int(index)] for index in random.integers(0, 2, 2)]
        zeros = ((*left, rows, 1), (rows,), (), None), ((*right, 1, columns), (columns,), (), None)
        chosen = [each[int(random.integers(4))] for each in zeros]
        pair = Pair((*left, rows, depth), (*right, depth, columns), *chosen)
        first = len(cases.inputs)
        add(cases, pair, types, (COMPUTED,) * 4)
        given = iter(each.astype(np.int64) for each in cases.inputs[first:])
        x, y = next(given), next(given)
        if chosen[0] is not None:
            zero = next(given)
            x = x - (zero[:, None] if zero.ndim == 1 else zero)
        if chosen[1] is not None:
            y = y - next(given)
        wanted.append((x @ y).astype(np.int32))
    for made, expected in zip(run_native(cases.graph(), cases.inputs), wanted, strict=True):
        np.testing.assert_array_equal(made, expected)


def test_sums_wrap_around() -> None:
    """Sums of more than 2^31 are what is left of them in 32 bits."""
    cases, depth = Cases(), 40000
    x = cases.given(np.full((2, depth), 255, np.uint8), None)
    y = cases.given(np.full((depth, 3), 255, np.uint8), None)
    add_sums(cases, "MatMulInteger", [x, y, None, None])
    (made,) = run_native(cases.graph(), cases.inputs)
    assert (made == np.array(255 * 255 * depth).astype(np.int32)).all()


@pytest.mark.parametrize("sizes", [((0, 4), (4, 3)), ((2, 0), (0, 3)), ((2, 4), (4, 0))])
def test_empty_matrices_are_left_to_numpy(sizes: tuple[Shape, Shape]) -> None:
    cases = Cases()
    add(cases, Pair(*sizes), BYTES, (COMPUTED,) * 4)
    (op,) = cases.graph().ops
    assert str(LOWERINGS.choose(op, parse_target("native"))).endswith("a size is 0")


@pytest.mark.parametrize(
    "pair",
    [
        Pair((4, 3), (3, 5), (3,)),
        Pair((4, 3), (3, 5), (1, 3)),
        Pair((4, 3), (3, 5), (), (3,)),
        Pair((4, 3), (3, 5), (), (2, 1, 5)),
        Pair((3,), (3, 5), (3,)),
        Pair((4, 3), (4, 5)),
    ],
)
def test_operands_that_do_not_fit_are_refused(pair: Pair) -> None:
    with pytest.raises(GraphError, match=r"zero points|fit together"):
        add(Cases(), pair, BYTES, (COMPUTED,) * 4)


def test_zero_points_are_of_a_matrix_its_rows_or_its_columns() -> None:
    for zeros in ((), (1,), (1, 1), (4,), (1, 4, 1), (2, 4, 1)):
        assert fits_zero_points((2, 4, 3), zeros, left=True)
    assert not fits_zero_points((2, 4, 3), (4, 1), left=True)
    assert fits_zero_points((2, 3, 4), (2, 1, 1), left=False)
    assert not fits_zero_points((2, 3, 4), (2, 3, 1), left=False)
