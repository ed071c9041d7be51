"""FULLY_CONNECTED of few float rows over weights that are 4-bit multiples of scales per block.

Such weights come as INT4 constants with scales, or from a DEQUANTIZE that was computed ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.floats.epilogue import CLAMPS
from circlet.backends.cpu.lower.floats.float_matrix import constant_floats, why_not_float
from circlet.backends.cpu.lower.integers.q8 import dot_is_signed, has_dot
from circlet.backends.cpu.lowering import LOWERINGS, Context, Kernel, Lowering, Rank, TensorRef
from circlet.ir import Op
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.target.targets import Target

Floats = npt.NDArray[np.float32]
Int8 = npt.NDArray[np.int8]

BLOCK = 32
_BLOCKS = (256, 128, 64, BLOCK)
_MOST_ROWS = 4
_LEAST_WEIGHTS = 1 << 14
_FREE_BROADCAST_LANES = 16  # instructions of this width repeat their operand themselves
_CLOSE = np.float32(2.0**-22)
_LEAST_PEAK, _MOST_PEAK = 1e-30, 1e25  # sums of a group of blocks stay finite
_BYTES_OF_SCALE = 8
_BYTES_OF_BLOCK = 80


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
    if not has_dot(target):
        return "the target has no dot product of bytes"
    units, depth = operand(op, 1).static_shape
    rows = operand(op, 0).elements // depth
    if rows > _MOST_ROWS or units * depth < _LEAST_WEIGHTS or depth % BLOCK:
        return "many rows, few weights, or no whole blocks"
    stored = np.asarray(operand(op, 1).data, np.float32)
    return None if block_form(stored) is not None else "the weights have more than 4 bits"


def _pack(values: Int8, vectors: int, lanes: int, *, is_signed: bool) -> npt.NDArray[np.uint8]:
    """[units, depth] to [tasks, blocks, vectors, 4, lanes, 4] of two weights, 16 inputs apart.

    Signed bytes hold the high weight as it is, not plus 8.
    """
    padded = np.pad(values + np.int8(8), ((0, -len(values) % (vectors * lanes)), (0, 0)))
    shaped = padded.astype(np.uint8).reshape(-1, vectors, lanes, values.shape[1] // BLOCK, 2, 4, 4)
    halves = shaped.transpose(0, 3, 1, 5, 2, 6, 4)
    flip = np.uint8(128 * is_signed)
    return np.ascontiguousarray((halves[..., 0] | halves[..., 1] << 4) ^ flip)


def _pack_scales(scales: Floats, vectors: int, lanes: int) -> Floats:
    """[units, blocks] to [tasks, blocks, vectors, lanes]."""
    padded = np.pad(scales, ((0, -len(scales) % (vectors * lanes)), (0, 0)))
    shaped = padded.reshape(-1, vectors, lanes, scales.shape[1])
    return np.ascontiguousarray(shaped.transpose(0, 3, 1, 2))


def _lower(op: Op, context: Context) -> None:
    form = block_form(np.asarray(operand(op, 1).data, np.float32))
    assert form is not None
    units, depth = form.values.shape
    lanes = context.vector_bytes // 4
    vectors = 1 if lanes == _FREE_BROADCAST_LANES else 2
    width, signed = vectors * lanes, dot_is_signed(context.target)
    bias = constant_floats(op.input(2))
    biases = np.zeros(units, np.float32) if bias is None else bias.reshape(-1)
    low, high = CLAMPS[activation_of(op)]
    rows = operand(op, 0).elements // depth
    split = context.temporary(op, rows * depth // BLOCK * _BYTES_OF_BLOCK)
    steps = context.temporary(op, rows * (depth // BLOCK + 1) * _BYTES_OF_SCALE)
    context.call(
        op,
        Kernel("block_q4.h", "block_q4_split"),
        {"depth": depth},
        (TensorRef(operand(op, 0)), split, steps),
        (split.tensor, steps.tensor),
        tasks=rows,
    )
    context.call(
        op,
        Kernel("block_q4.h", "block_q4", (vectors,)),
        {
            "rows": rows,
            "depth": depth,
            "units": units,
            "per_scale": form.block // BLOCK,
            "low": low,
            "high": high,
        },
        (
            split,
            context.constant(_pack(form.values, vectors, lanes, is_signed=signed)),
            context.constant(_pack_scales(form.scales, vectors, lanes)),
            context.constant(np.pad(biases, (0, -units % width))),
            TensorRef(op.outputs[0]),
            steps,
        ),
        (op.outputs[0],),
        tasks=-(-units // width),
    )


LOWERINGS.add(
    Lowering("FULLY_CONNECTED", "fully_connected_block_q4", _refuses, _lower, rank=Rank.BLOCK_Q4)
)
