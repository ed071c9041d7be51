"""MatMulInteger and NhwcConvInteger over constant weights give the records' sums, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from circlet.backends.cpu.lowering import LOWERINGS
from circlet.ir import DType, Tensor
from circlet.ops import get
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Cases, each_target
from tests.backends.cpu.harness import run_native

SIZES = ((6, 300, 24), (1, 3, 5), (17, 64, 70), (2, 1500, 33))
BYTES = (DType.UINT8, DType.INT8)


class Conv(NamedTuple):
    """A convolution of images by filters, and its attributes."""

    image: tuple[int, ...]
    filters: tuple[int, ...]
    attributes: dict[str, object] = {}  # noqa: RUF012  (nobody changes it)


CONVS = (
    Conv((1, 6, 7, 8), (5, 8, 1, 1)),
    Conv((2, 6, 7, 20), (33, 20, 3, 3), {"pads": (1, 1, 1, 1)}),
    Conv((2, 9, 10, 3), (16, 3, 3, 3), {"pads": (0, 1, 2, 0), "strides": (2, 1)}),
    Conv((1, 9, 9, 4), (7, 4, 2, 3), {"auto_pad": "SAME_UPPER", "strides": (2, 2)}),
    Conv((1, 12, 11, 16), (70, 16, 3, 3), {"pads": (2, 2, 2, 2), "dilations": (2, 2)}),
)


def stored(cases: Cases, dtype: DType, shape: Sequence[int], seed: int) -> Tensor:
    """Constant bytes."""
    values = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    return cases.builder.constant(f"w{len(cases.outputs)}", values.view(dtype.numpy))


def zero_points(cases: Cases, dtype: DType, given: int | Sequence[int]) -> Tensor:
    """Constant zero points of weights."""
    return cases.builder.constant(f"z{len(cases.outputs)}", np.array(given, dtype.numpy))


def add_sums(
    cases: Cases, kind: str, operands: Sequence[Tensor | None], **attributes: object
) -> None:
    """An operator of sums, which becomes an output."""
    made = Tensor(f"sums{len(cases.outputs)}", DType.INT32, ())
    attrs, code = OnnxAttrs(tuple(sorted(attributes.items()))), f"{PREFIX}{kind}"
    cases.outputs += cases.builder.op_many("CUSTOM", operands, [made], attrs, custom_code=code)
    op = cases.builder.graph.ops[-1]
    made.shape = get(op).infer(op)[0].shape


def add_product(
    cases: Cases, sizes: tuple[int, int, int], dtype: DType, weights: DType, zero: int
) -> None:
    """A MatMulInteger of rows, depth and units."""
    rows, depth, units = sizes
    x_zero = cases.given(np.array(sum(sizes) % 127, dtype.numpy), None)
    matrix = stored(cases, weights, (depth, units), depth)
    x = cases.data(dtype, (rows, depth), None)
    operands = [x, matrix, x_zero, zero_points(cases, weights, [zero] * units)]
    add_sums(cases, "MatMulInteger", operands)


def add_conv(cases: Cases, conv: Conv, dtype: DType, weights: DType, zero: int) -> None:
    """A NhwcConvInteger whose image has a zero point that a run gives."""
    x_zero = cases.given(np.array(conv.image[2] * 9, dtype.numpy), None)
    x, filters = cases.data(dtype, conv.image, None), stored(cases, weights, conv.filters, 5)
    operands = [x, filters, x_zero, zero_points(cases, weights, zero)]
    add_sums(cases, "NhwcConvInteger", operands, **conv.attributes)


def sums() -> Cases:
    """Products and convolutions of both types of bytes, zero points of weights, few channels."""
    cases = Cases()
    for dtype, weights, sizes in product(BYTES, BYTES, SIZES):
        for zero in (0, 128) if weights is DType.UINT8 else (0, -7):
            add_product(cases, sizes, dtype, weights, zero)
    for dtype, weights, conv in product(BYTES, BYTES, CONVS):
        for zero in (128, 131) if weights is DType.UINT8 else (0,):
            add_conv(cases, conv, dtype, weights, zero)
    x, filters = (
        cases.data(DType.UINT8, (1, 5, 5, 8), None),
        stored(cases, DType.INT8, (3, 8, 3, 3), 1),
    )
    add_sums(cases, "NhwcConvInteger", [x, filters, None, None], pads=(1, 1, 1, 1))
    return cases


@each_target
def test_sums_over_bytes_equal_the_record(target: str) -> None:
    sums().check(target, threads=2, tolerance=0)


def test_weights_become_bytes_around_zero_where_they_fit() -> None:
    """Units with zero points of their own are packed ahead where int8 holds what is left."""
    for few, name in (
        (np.array([[0, 3], [9, 120]]), "mat_mul_integer"),
        (np.array([[0, 3], [9, 255]]), "mat_mul_integer_computed"),
    ):
        cases = Cases()
        weights = cases.builder.constant("w", few.astype(np.uint8))
        x = cases.data(DType.UINT8, (4, 2), None)
        operands = [x, weights, None, zero_points(cases, DType.UINT8, [5, 2])]
        add_sums(cases, "MatMulInteger", operands)
        (op,) = cases.graph().ops
        found = LOWERINGS.choose(op, parse_target("native"))
        assert not isinstance(found, str)
        assert found.name == name
        cases.check("native", tolerance=0)


@pytest.mark.parametrize("zero", [2, 200])
def test_borders_are_the_zero_point(zero: int) -> None:
    """An image that is its zero point all over gives sums of 0, at the edges too."""
    cases = Cases()
    x = cases.given(np.full((1, 4, 4, 8), zero, np.uint8), None)
    filters = stored(cases, DType.INT8, (3, 8, 3, 3), 2)
    given = cases.given(np.array([zero], np.uint8), None)
    add_sums(cases, "NhwcConvInteger", [x, filters, given], pads=(1, 1, 1, 1))
    (made,) = run_native(cases.graph(), cases.inputs, "native")
    assert made.shape == (1, 4, 4, 3)
    assert not made.any()
