"""CONV_2D and FULLY_CONNECTED over 8-bit weights, or biases, that are computed at run time."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.backends.cpu.lower.copy import copy_loops
from circlet.backends.cpu.lower.integers.computed_q8 import fixed_point_of_any
from circlet.backends.cpu.lower.integers.conv_q8 import call_conv_q8, integer_conv
from circlet.backends.cpu.lower.integers.epilogue import Q8Product
from circlet.backends.cpu.lower.integers.fully_connected_q8 import integer_rows
from circlet.backends.cpu.lower.integers.i8mm import product_offset
from circlet.backends.cpu.lower.integers.q8 import MAX_LEFT_SHIFT, Int8, signed_weights
from circlet.backends.cpu.lower.integers.requantisation import (
    Requantisation,
    double_precision,
    interleaved,
)
from circlet.backends.cpu.lower.products.product import ComputedWeights
from circlet.backends.cpu.lower.products.windows import conv_border
from circlet.backends.cpu.lower.views import Loops, layout_of, source_ref, strides_of
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, NoRef, Rank, Ref
from circlet.ir import DType, Op
from circlet.ops.operands import operand
from circlet.ops.requantization import is_default
from circlet.ops.requantize import quantize_multiplier
from circlet.ops.weighted import largest_factor
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    data, weights, result = operand(op, 0), operand(op, 1), op.outputs[0]
    if (data.dtype, weights.dtype) not in (
        (DType.INT8, DType.INT8),
        (DType.UINT8, DType.UINT8),
    ):
        return f"does not take {data.dtype.name} with {weights.dtype.name} weights"
    if any(tensor.elements == 0 for tensor in (data, weights, result)):
        return "a size is 0"
    if weights.sparsity is not None:
        return "the weights are stored sparse"
    _, shift = quantize_multiplier(largest_factor(data, weights, result))
    if shift > MAX_LEFT_SHIFT:
        return "an output step is far finer than an accumulator step"
    return None


def _refuses_conv(op: Op, target: Target) -> str | None:
    if operand(op, 0).is_constant:
        return "the input must be computed"
    if operand(op, 1).static_shape[3] != operand(op, 0).static_shape[3]:
        return "does not take groups of channels"
    return _refuses(op, target)


def _weights(op: Op, context: Context) -> Ref:
    """The weights, one behind the other; others are copied so."""
    weights = operand(op, 1)
    source, layout = source_ref(context, weights), layout_of(context, weights)
    if layout.is_dense:
        return source
    shape = weights.static_shape
    dense = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    copy = context.temporary(op, weights.elements)
    loops = Loops(shape, (strides_of(weights, layout), dense))
    copy_loops(op, context, source, copy, loops, 1)
    return copy


def _with_computed(product: Q8Product, context: Context) -> Q8Product:
    """The product over weights where they are at run time."""
    op, bias = product.op, product.op.input(2)
    _, _, columns, channels = product.shape
    weights = ComputedWeights(
        _weights(op, context),
        product.depth,
        (columns * channels, channels),
        bias=NoRef() if bias is None else source_ref(context, bias),
    )
    return product._replace(computed=weights)


def _lower_conv(op: Op, context: Context) -> None:
    offset, lanes = product_offset(operand(op, 0), context.target), context.vector_bytes // 4

    def requantise(_: Int8, width: int) -> Requantisation:
        return fixed_point_of_any(op, interleaved(operand(op, 1).static_shape[0], width, lanes))

    product = integer_conv(op, context, lambda: signed_weights(op), offset)
    epilogue = product.epilogue._replace(requantise=requantise)
    call_conv_q8(_with_computed(product._replace(epilogue=epilogue), context), context)


def _lower_rows(op: Op, context: Context) -> None:
    offset, lanes = product_offset(operand(op, 0), context.target), context.vector_bytes // 4
    zeros = np.zeros(operand(op, 1).static_shape[0], np.int64)

    def requantise(_: Int8, width: int) -> Requantisation:
        order = interleaved(zeros.size, width, lanes)
        return (
            double_precision(op, zeros, order, context.target)
            if is_default(op)
            else fixed_point_of_any(op, order)
        )

    product, data = integer_rows(op, context, offset), operand(op, 0)
    epilogue, source = product.epilogue._replace(requantise=requantise), product.source
    if data.is_constant:
        source = source._replace(placed=context.stored(data))
    product = product._replace(epilogue=epilogue, source=source)
    call_conv_q8(_with_computed(product, context), context)


LOWERINGS.add(
    Lowering(
        "FULLY_CONNECTED",
        "fully_connected_q8_computed",
        _refuses,
        _lower_rows,
        rank=Rank.COMPUTED_INT8,
    )
)
LOWERINGS.add(
    Lowering(
        "CONV_2D",
        "conv_q8_computed",
        _refuses_conv,
        _lower_conv,
        conv_border,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.COMPUTED_INT8,
    )
)
