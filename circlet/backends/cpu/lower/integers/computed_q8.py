"""8-bit weights that are computed at run time, packed as constant ones are at compile time.

A call of `pack_conv_q8.h` ahead of the product writes the interleaved weights of `conv_q8.h`, and
its records: what scales sums follows from quantisation alone and is constant, while the start of a
sum takes in the sum of a channel's weights, and its bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from circlet.backends.cpu.lower.integers.q8 import (
    Scaling,
    Slots,
    Tile,
    bias_of,
    fixed_scaling,
    weights_zero,
)
from circlet.backends.cpu.lowering import Context, Kernel, ParamValue, Ref, TensorRef
from circlet.ir import DType, Op
from circlet.ops.operands import limits, operand
from circlet.ops.requantize import scalar_quant, wrap_int32

_UNBOUNDED = 1 << 31
_FLIP = 0x80808080 - (1 << 32)  # the top bit of each byte, as int32


@dataclass(frozen=True)
class ComputedWeights:
    """8-bit weights that are known at run time only, [channels, ...], dense.

    Attributes:
        op: What they belong to.
        weights: The first one.
        bias: One value per channel, or nothing.
        offset: What is added to activations on their way into dot products.
        scaling: Records of a tile whose sums start at zero.
    """

    op: Op
    weights: Ref
    bias: Ref
    offset: int
    scaling: Callable[[Tile], Scaling]

    def folding(self, depth: int) -> dict[str, ParamValue]:
        """How sums of `depth` weights become starts of sums; see `fold_zero_points`."""
        shift, zero = scalar_quant(operand(self.op, 0))[1] + self.offset, weights_zero(self.op)
        is_unsigned = operand(self.op, 1).dtype is DType.UINT8
        return {
            "factor": -shift,
            "addend": int(wrap_int32(np.array([shift * zero * depth], np.int64))[0]),
            "flip": _FLIP if is_unsigned else 0,
        }


def pack_kernel(tile: Tile) -> Kernel:
    """The kernel that packs blocks for a tile."""
    return Kernel("pack_conv_q8.h", "pack_conv_q8", (tile.vectors,))


def call_pack(
    computed: ComputedWeights, context: Context, window: tuple[int, int, int], tile: Tile
) -> tuple[TensorRef, TensorRef]:
    """Append the call that packs weights for a tile, and tell where they and their records are.

    Args:
        window: Channels, runs of a channel, and bytes of a run.
    """
    channels, taps, run = window
    width = tile.vectors * context.vector_bytes // 4
    blocks, block_bytes = -(-channels // width), taps * -(-run // 4) * 4 * width
    records = computed.scaling(tile).records
    packed = context.temporary(computed.op, blocks * block_bytes)
    starts = context.temporary(computed.op, records.nbytes)
    params: dict[str, ParamValue] = {
        "filter": taps * run,
        "taps": taps,
        "run": run,
        "block_bytes": block_bytes,
        "channels": channels,
        **computed.folding(taps * run),
    }
    context.call(
        computed.op,
        pack_kernel(tile),
        params,
        (computed.weights, computed.bias, context.constant(records), packed, starts),
        [packed.tensor, starts.tensor],
        tasks=blocks,
    )
    return packed, starts


def scaling_of_any(op: Op, depth: int, slots: Slots) -> Scaling:
    """Records that are right for all values that weights, and a computed bias, may have."""
    bias, channels = op.input(2), operand(op, 1).static_shape[0]
    zeros = np.zeros(channels, np.int64)
    if bias is not None and not bias.is_constant:
        unbiased = replace(op, inputs=[*op.inputs[:2], None])
        return fixed_scaling(unbiased, zeros, zeros + _UNBOUNDED, slots)
    return fixed_scaling(op, zeros, np.abs(bias_of(op, channels)) + _reach(op, depth), slots)


def _reach(op: Op, depth: int) -> int:
    """How far from zero a sum of `depth` products can get without a bias."""
    data, zero = operand(op, 0), weights_zero(op)
    (low, high), data_zero = limits(data.dtype), scalar_quant(data)[1]
    return depth * max(high - data_zero, data_zero - low) * max(127 - zero, zero + 128)
