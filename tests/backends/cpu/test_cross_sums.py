"""MatMulInteger of operands and zero points that a run gives: the record's sums, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, product
from typing import NamedTuple

import numpy as np
import pytest

from circlet.backends.cpu.lowering import LOWERINGS
from circlet.errors import GraphError
from circlet.ir import DType, Tensor
from circlet.ops.onnx.integer_sums import fits_zero_points
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
    for pair, both in product(PAIRS, range(2)):
        first, how = next(types), next(hows)
        add(cases, pair, first if both else first[::-1], how)
    for each in product(BYTES, BYTES):
        add(cases, PAIRS[0], each, (COMPUTED,) * 4)
    return cases


@each_width
def test_sums_of_computed_bytes_equal_the_record(target: str) -> None:
    cases = cross_sums()
    for op in cases.graph().ops:
        assert not isinstance(LOWERINGS.choose(op, parse_target("native")), str)
    cases.check(target, threads=2, tolerance=0)


def test_random_products_equal_numpy() -> None:
    cases, random, wanted = Cases(), np.random.default_rng(7), []
    for _ in range(24):
        rows, depth, columns = (int(size) for size in random.integers(1, 90, 3))
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
