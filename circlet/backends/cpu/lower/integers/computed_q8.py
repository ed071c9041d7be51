"""8-bit weights that are computed at run time, packed as constant ones are at compile time.

A call of `pack_conv_q8.h` ahead of the product writes the interleaved weights of `conv_q8.h`, and
its parameters of requantisation: what scales sums follows from quantisation alone and is constant,
while the start of a sum takes in the sum of a channel's weights, and its bias.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from circlet.backends.cpu.lower.integers.i8mm import product_offset
from circlet.backends.cpu.lower.integers.q8 import Int32, bias_of, weights_zero
from circlet.backends.cpu.lower.integers.requantisation import (
    ChannelOrder,
    Requantisation,
    fixed_point,
)
from circlet.backends.cpu.lower.products.product import (
    ComputedWeights,
    Im2colRow,
    Product,
    ZeroPoints,
)
from circlet.backends.cpu.lower.views import MAX_AXES, outer_fields, stride_fields
from circlet.backends.cpu.lowering import Context, Kernel, ParamValue, Ref, TensorRef
from circlet.ir import DType, Op
from circlet.ops.operands import limits, operand
from circlet.ops.requantize import scalar_quant, wrap_int32

_UNBOUNDED = 1 << 31
_FLIP = 0x80808080 - (1 << 32)  # the top bit of each byte, as int32
_TOP = 0x80


def pack_kernel(product: Product[Any], computed: ComputedWeights, vectors: int) -> Kernel:
    """The kernel that packs blocks of so many vectors of channels."""
    across = int(computed.filter == 1 and computed.channel != 1)
    if computed.zeros is not None:
        is_signed = int(operand(product.op, 1).dtype is DType.INT8)
        return Kernel("pack_sums_q8.h", "pack_sums_q8", (vectors, across, is_signed))
    return Kernel("pack_conv_q8.h", "pack_conv_q8", (vectors, across))


def call_pack(
    product: Product[Any], row: Im2colRow, parameters: Int32, vectors: int, context: Context
) -> tuple[TensorRef, TensorRef]:
    """Append the call that packs weights, and tell where they and their parameters are.

    Args:
        product: What the weights belong to.
        row: Runs of a window.
        parameters: Those of requantisation whose sums start at zero.
        vectors: Vectors of channels of a block.
        context: The plan.
    """
    computed, op = product.computed, product.op
    assert computed is not None
    width = vectors * context.vector_bytes // 4
    blocks, block_bytes = -(-product.filters // width), row.runs * -(-row.length // 4) * 4 * width
    stack = computed.stack
    packed = context.temporary(op, stack.matrices * blocks * block_bytes)
    starts = context.temporary(op, stack.matrices * parameters.nbytes)
    params: dict[str, ParamValue] = {
        "filter": computed.filter,
        "element": computed.channel,
        "taps": row.runs,
        "run": row.length,
        "block_bytes": block_bytes,
        "channels": product.filters,
        "blocks": blocks,
        "sizes": outer_fields(stack.sizes, MAX_AXES - 1),
        "matrices": stride_fields((*stack.strides, 0)),
        "flip": _FLIP if operand(op, 1).dtype is DType.UINT8 else 0,
    }
    known: tuple[Ref, ...] = (computed.bias, context.constant(parameters))
    if computed.zeros is None:
        params |= _folding(op, product.depth, product_offset(operand(op, 0), context.target))
    else:
        known, params = (computed.zeros.first,), _of_sums(op, computed.zeros, params)
    context.call(
        op,
        pack_kernel(product, computed, vectors),
        params,
        (computed.weights, *known, packed, starts),
        [packed.tensor, starts.tensor],
        tasks=stack.matrices * blocks,
    )
    return packed, starts


def _of_sums(op: Op, zeros: ZeroPoints, params: dict[str, ParamValue]) -> dict[str, ParamValue]:
    """The parameters of `pack_sums_q8.h`, given those of what is packed."""
    return {
        **{f"pack_{name}": value for name, value in params.items()},
        "zeros": stride_fields((*zeros.strides, 0)),
        "zero_step": zeros.step,
        "zero_flip": -_TOP if operand(op, 1).dtype is DType.UINT8 else 0,
    }


def _folding(op: Op, depth: int, offset: int) -> dict[str, ParamValue]:
    """How sums of `depth` weights become starts of sums; see `fold_zero_points`."""
    shift, zero = scalar_quant(operand(op, 0))[1] + offset, weights_zero(op)
    return {
        "factor": -shift,
        "addend": int(wrap_int32(np.array([shift * zero * depth], np.int64))[0]),
    }


def fixed_point_of_any(op: Op, order: ChannelOrder) -> Requantisation:
    """Parameters that are right for all values that weights, and a computed bias, may have."""
    bias, (channels, *window) = op.input(2), operand(op, 1).static_shape
    zeros = np.zeros(channels, np.int64)
    if bias is not None and not bias.is_constant:
        unbiased = replace(op, inputs=[*op.inputs[:2], None])
        return fixed_point(unbiased, zeros, zeros + _UNBOUNDED, order)
    reach = np.abs(bias_of(op, channels)) + _reach(op, prod(window))
    return fixed_point(op, zeros, reach, order)


def _reach(op: Op, depth: int) -> int:
    """How far from zero a sum of `depth` products can get without a bias."""
    data, zero = operand(op, 0), weights_zero(op)
    (low, high), data_zero = limits(data.dtype), scalar_quant(data)[1]
    return depth * max(high - data_zero, data_zero - low) * max(127 - zero, zero + 128)
