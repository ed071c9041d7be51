"""FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from circlet.backends.opencl.emission import Constant, Emission
from circlet.backends.opencl.lower.products import Product, launch_product
from circlet.backends.opencl.lower.sums import (
    Sums,
    float_defines,
    integer_defines,
    multipliers,
    padded_to,
    spread_factors,
    sums_of,
    weights_of,
)
from circlet.backends.opencl.lowering import lowers, take
from circlet.ir import DType, Op
from circlet.ops.batch_matmul import adjoint, column_scales
from circlet.ops.operands import limits, operand, scale_of, zero_of
from circlet.ops.requantization import rounds_twice

_FEW_ROWS = 4
_ITEMS = 64


@lowers("FULLY_CONNECTED")
def _fully_connected(op: Op, emission: Emission) -> None:
    data, weights, result = operand(op, 0), operand(op, 1), op.outputs[0]
    units, depth = weights.static_shape
    rows = data.elements // depth
    sums = sums_of(op, emission, (data, weights, op.input(2)), partial(padded_to, multiple=4))
    operands = (emission.value(data), emission.value(weights), result)
    if rows <= _FEW_ROWS:
        if weights.is_constant:
            operands = (operands[0], weights_of(emission, weights, np.ascontiguousarray), result)
        flags = {"VECTOR": int(depth % 4 == 0), "ITEMS": _ITEMS}
        kernel = emission.template("rows", {**sums.defines, **flags})
        arguments = [*operands, *sums.arguments, units, depth]
        emission.launch(kernel, arguments, (units * _ITEMS, rows), (_ITEMS, 1))
        return
    packed = units + -units % 4 if weights.is_constant else 0
    product = Product(
        rows, units, depth, units, packed=packed, a_steps=(depth, 1), b_steps=(1, depth)
    )
    if weights.is_constant:
        turned = weights_of(emission, weights, _turned)
        operands = (operands[0], turned, result)
    launch_product(emission, sums, operands, product)


def _turned(weights: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(padded_to(weights.T, 4))


@lowers("BATCH_MATMUL")
def _batch_matmul(op: Op, emission: Emission) -> None:
    first, second, result = operand(op, 0), operand(op, 1), op.outputs[0]
    sums = _batch_sums(op, emission)
    turned = adjoint(op)
    *_, rows, columns = result.static_shape
    depth = first.static_shape[-2 if turned[0] else -1]
    product = Product(
        rows,
        columns,
        depth,
        columns,
        offsets=_offsets(op, rows * depth, depth * columns, rows * columns),
        a_steps=(1, rows) if turned[0] else (depth, 1),
        b_steps=(1, depth) if turned[1] else (columns, 1),
    )
    operands = (emission.value(first), emission.value(second), result)
    launch_product(emission, sums, operands, product)


def _offsets(op: Op, a: int, b: int, c: int) -> list[tuple[int, int, int, int]]:
    """The first elements of each pair of matrices, those of one batch broadcast."""
    batches = op.outputs[0].static_shape[:-2]
    numbers = []
    for index in (0, 1):
        own = operand(op, index).static_shape[:-2]
        grid = np.arange(prod(own)).reshape(own)
        numbers.append(np.broadcast_to(grid, batches).reshape(-1).tolist())
    pairs = zip(*numbers, strict=True)
    return [(x * a, y * b, number * c, 0) for number, (x, y) in enumerate(pairs)]


def _batch_sums(op: Op, emission: Emission) -> Sums:
    first, second, result = operand(op, 0), operand(op, 1), op.outputs[0]
    columns = result.static_shape[-1]
    types = {first.dtype, second.dtype, result.dtype}
    if types == {DType.FLOAT32}:
        bias = Constant(op.name, lambda: padded_to(np.zeros(columns, np.float32), 4))
        return Sums(float_defines(), (bias, -float("inf"), float("inf")))
    take(types == {DType.INT8}, f"{first.dtype.name} meets {second.dtype.name}")
    take(rounds_twice(op), "sums are not requantised in 32 bits")
    spread = partial(padded_to, multiple=4)

    def factors() -> np.ndarray:
        scales = column_scales(op).astype(np.float64) * scale_of(first)
        return spread_factors(multipliers(scales / scale_of(result)), op, spread)

    bias = Constant(op.name, lambda: padded_to(np.zeros(columns, np.int32), 4))
    zeros = (zero_of(first), zero_of(second), zero_of(result))
    defines = integer_defines(first.dtype, second.dtype, result.dtype, "double")
    arguments = (bias, Constant(op.name, factors), *zeros, *limits(result.dtype))
    return Sums(defines, arguments)
