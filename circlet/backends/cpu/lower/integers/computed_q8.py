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
from circlet.backends.cpu.lower.products.product import ComputedWeights, Im2colRow, Product
from circlet.backends.cpu.lower.views import MAX_AXES, outer_fields, stride_fields
from circlet.backends.cpu.lowering import Context, Kernel, ParamValue, TensorRef
from circlet.ir import DType, Op
from circlet.ops.operands import limits, operand
from circlet.ops.requantize import scalar_quant, wrap_int32

_UNBOUNDED = 1 << 31
_FLIP = 0x80808080 - (1 << 32)  # the top bit of each byte, as int32


def pack_kernel(computed: ComputedWeights, vectors: int) -> Kernel:
    """The kernel that packs blocks of so many vectors of channels."""
    across = int(computed.filter == 1 and computed.channel != 1)
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
        **_folding(op, product.depth, product_offset(operand(op, 0), context.target)),
    }
    context.call(
        op,
        pack_kernel(computed, vectors),
        params,
        (computed.weights, computed.bias, context.constant(parameters), packed, starts),
        [packed.tensor, starts.tensor],
        tasks=stack.matrices * blocks,
    )
    return packed, starts


def _folding(op: Op, depth: int, offset: int) -> dict[str, ParamValue]:
    """How sums of `depth` weights become starts of sums; see `fold_zero_points`."""
    shift, zero = scalar_quant(operand(op, 0))[1] + offset, weights_zero(op)
    is_unsigned = operand(op, 1).dtype is DType.UINT8
    return {
        "factor": -shift,
        "addend": int(wrap_int32(np.array([shift * zero * depth], np.int64))[0]),
        "flip": _FLIP if is_unsigned else 0,
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
