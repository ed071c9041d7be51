"""FULLY_CONNECTED of few float rows over weights that are 4-bit multiples of scales per block.

Such weights come from a DEQUANTIZE that was computed ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.floats.block_bits import BLOCK, BlockProduct, BlockWeights
from circlet.backends.cpu.lower.floats.epilogue import CLAMPS
from circlet.backends.cpu.lower.floats.float_matrix import constant_floats, why_not_float
from circlet.backends.cpu.lower.integers.q8 import has_dot, has_pairs
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, Rank, TensorRef
from circlet.ir import Op
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.target.targets import Target

Floats = npt.NDArray[np.float32]
Int8 = npt.NDArray[np.int8]

_BLOCKS = (256, 128, 64, BLOCK)
_MOST_ROWS = 4
_LEAST_WEIGHTS = 1 << 14
_CLOSE = np.float32(2.0**-22)
_LEAST_PEAK, _MOST_PEAK = 1e-30, 1e25  # sums of a block stay finite


@dataclass(frozen=True)
class BlockForm:
    """Weights as small integers [units, depth] times scales [units, depth / block]."""

    values: Int8
    scales: Floats
    block: int


def block_form(weights: Floats) -> BlockForm | None:
    """The 4-bit multiples that a matrix consists of, or None if it is of another kind."""
    depth = weights.shape[1]
    for block in dict.fromkeys((depth, *_BLOCKS)):
        if depth % block or block % BLOCK or _multiples(weights[:1], block) is None:
            continue
        form = _multiples(weights, block)
        if form is not None:
            return form
    return None


def _multiples(weights: Floats, block: int) -> BlockForm | None:
    """Each block over a scale that makes its greatest magnitude a whole number up to 8.

    Where that number is 8 itself, which 4 bits lack, the scale is negative.
    """
    parts = weights.reshape(-1, block)
    peaks = np.abs(parts).max(axis=1)
    if not ((peaks == 0) | ((peaks > _LEAST_PEAK) & (peaks < _MOST_PEAK))).all():
        return None
    values, scales = np.zeros(parts.shape, np.int8), np.zeros_like(peaks)
    left = np.flatnonzero(peaks)
    for steps in range(8, 0, -1):
        rest, scale = parts[left], peaks[left] / np.float32(steps)
        whole = np.rint(rest / scale[:, None])
        near = np.abs(whole * scale[:, None] - rest) <= np.abs(rest) * _CLOSE
        sign = np.where(whole.max(axis=1) == 8, np.float32(-1), np.float32(1))
        whole, scale = whole * sign[:, None], scale * sign
        fits = (near & (whole < 8) & (whole >= -8)).all(axis=1)
        values[left[fits]], scales[left[fits]] = whole[fits], scale[fits]
        left = left[~fits]
    if left.size:
        return None
    return BlockForm(values.reshape(weights.shape), scales.reshape(len(weights), -1), block)


def _refuses(op: Op, target: Target) -> str | None:
    reason = why_not_float(op, 0, 1, 2)
    if reason is not None:
        return reason
    if not (has_dot(target) or has_pairs(target)):
        return "the target has no dot product of bytes"
    units, depth = operand(op, 1).static_shape
    rows = operand(op, 0).elements // depth
    if rows > _MOST_ROWS or units * depth < _LEAST_WEIGHTS or depth % BLOCK:
        return "many rows, few weights, or no whole blocks"
    stored = np.asarray(operand(op, 1).data, np.float32)
    return None if block_form(stored) is not None else "the weights have more than 4 bits"


def _lower(op: Op, context: Context) -> None:
    form = block_form(np.asarray(operand(op, 1).data, np.float32))
    assert form is not None
    units, depth = form.values.shape
    product = BlockProduct(
        rows=operand(op, 0).elements // depth,
        units=units,
        depth=depth,
        block=form.block,
        bits=4,
        clamp=CLAMPS[activation_of(op)],
    )
    product.lower(op, context, TensorRef(operand(op, 0)), lambda: _weights(op, form))


def _weights(op: Op, form: BlockForm) -> BlockWeights:
    bias, units = constant_floats(op.input(2)), len(form.values)
    return BlockWeights(
        values=(form.values + np.int8(8)).astype(np.uint8),
        scales=form.scales,
        offsets=np.zeros_like(form.scales, np.int8),
        biases=np.zeros(units, np.float32) if bias is None else bias.reshape(-1),
    )


LOWERINGS.add(
    Lowering(
        "FULLY_CONNECTED", "fully_connected_block_bits", _refuses, _lower, rank=Rank.BLOCK_BITS
    )
)
