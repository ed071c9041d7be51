"""MaxPoolingWithArgmax2D, which says where the largest elements were, and MaxUnpooling2D."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.ir import DType, Op
from circlet.ops import checks
from circlet.ops.guard import look
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import moves_bytes, operand, present, sizes_agree
from circlet.ops.requantize import activate_float

_MOST_TAPS = 256
# MediaPipe adds it to whole numbers that it keeps as floats, so that none is cut too low.
_NUDGE = np.float32(0.1)


@dataclass(frozen=True)
class ArgmaxPoolAttrs:
    """Windows, down and across, and what is applied to the largest elements."""

    padding: str = "SAME"
    strides: tuple[int, int] = (1, 1)
    kernel_shape: tuple[int, int] = (1, 1)
    activation: str = "NONE"


def _count(attrs: ArgmaxPoolAttrs, axis: int, size: int) -> int:
    """How many windows an image of this size has."""
    stride, taps = attrs.strides[axis], attrs.kernel_shape[axis]
    return -(-size // stride) if attrs.padding == "SAME" else (size - taps + stride) // stride


def before_first(attrs: ArgmaxPoolAttrs, axis: int, size: int, count: int) -> int:
    """How far the first of some windows begins before an image, down (0) or across (1)."""
    reach = (count - 1) * attrs.strides[axis] + attrs.kernel_shape[axis]
    return max(0, (reach - size) // 2)


def _pool(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Places are counted row by row through the window; the first of equal elements counts."""
    attrs, x = op.attributes(ArgmaxPoolAttrs), present(arrays[0])
    counts = [_count(attrs, axis, x.shape[axis + 1]) for axis in range(2)]
    padded = _padded(attrs, x, counts)
    largest = np.full((x.shape[0], *counts, x.shape[3]), np.finfo(np.float32).min, np.float32)
    places = np.zeros(largest.shape, np.float32)
    (down, across), (rows, columns) = attrs.strides, attrs.kernel_shape
    for place in range(rows * columns):
        look()
        row, column = divmod(place, columns)
        ends = row + (counts[0] - 1) * down + 1, column + (counts[1] - 1) * across + 1
        seen = padded[:, row : ends[0] : down, column : ends[1] : across]
        larger = seen > largest
        largest[larger], places[larger] = seen[larger], place
    return [activate_float(largest, attrs.activation), places + _NUDGE]


def _padded(attrs: ArgmaxPoolAttrs, x: np.ndarray, counts: list[int]) -> np.ndarray:
    """The image with a border, which is larger than nothing."""
    pads = []
    for axis, count in enumerate(counts):
        size = x.shape[axis + 1]
        before = before_first(attrs, axis, size, count)
        reach = (count - 1) * attrs.strides[axis] + attrs.kernel_shape[axis]
        pads.append((before, max(0, reach - before - size)))
    return np.pad(x, ((0, 0), *pads, (0, 0)), constant_values=np.nan)


def _infer_pool(op: Op) -> list[TensorType]:
    attrs, (batch, *sizes, depth) = op.attributes(ArgmaxPoolAttrs), operand(op, 0).shape
    counts = [
        None if size is None else _count(attrs, axis, size) for axis, size in enumerate(sizes)
    ]
    return [TensorType(DType.FLOAT32, (batch, *counts, depth))] * 2


def _windows_fit(op: Op) -> bool:
    attrs, sizes = op.attributes(ArgmaxPoolAttrs), operand(op, 0).shape[1:3]
    return all(size is None or _count(attrs, axis, size) > 0 for axis, size in enumerate(sizes))


def _unpool(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Elements go to their places in an image of zeros; of two at one place the later stays.

    An element whose index is no place of the window, or whose place is outside, goes nowhere.
    """
    attrs, x, stored = op.attributes(ArgmaxPoolAttrs), present(arrays[0]), present(arrays[1])
    batch, height, width, depth = x.shape
    (down, across), (rows, columns) = attrs.strides, attrs.kernel_shape
    result = np.zeros((batch, height * rows, width * columns, depth), np.float32)
    is_place = (stored > -1) & (stored < rows * columns)
    places = np.where(is_place, stored, 0).astype(np.int64)
    top = before_first(attrs, 0, result.shape[1], height)
    left = before_first(attrs, 1, result.shape[2], width)
    at_row = np.arange(height)[:, None, None] * down - top + places // columns
    at_column = np.arange(width)[:, None] * across - left + places % columns
    kept = is_place & (at_row >= 0) & (at_row < result.shape[1])
    kept &= (at_column >= 0) & (at_column < result.shape[2])
    images, _, _, channels = np.nonzero(kept)
    result[images, at_row[kept], at_column[kept], channels] = x[kept]
    return [result]


def _infer_unpool(op: Op) -> list[TensorType]:
    batch, *sizes, depth = operand(op, 0).shape
    kernel = op.attributes(ArgmaxPoolAttrs).kernel_shape
    made = [None if size is None else size * taps for size, taps in zip(sizes, kernel, strict=True)]
    return [TensorType(DType.FLOAT32, (batch, *made, depth))]


def _indices_fit(op: Op) -> bool:
    return sizes_agree(operand(op, 0).shape, operand(op, 1).shape)


def _pool_cost(op: Op) -> Cost:
    taps = prod(op.attributes(ArgmaxPoolAttrs).kernel_shape)
    return Cost(bytes=moves_bytes(op).bytes, arithmetic=4 * op.outputs[0].elements * taps)


_RULES = (
    checks.one_of("padding", ("SAME", "VALID")),
    checks.one_of("activation", checks.ACTIVATIONS),
    checks.steps(2, "strides", "kernel_shape"),
    Rule(
        "taps",
        lambda op: prod(op.attributes(ArgmaxPoolAttrs).kernel_shape) <= _MOST_TAPS,
        f"a window must not have more than {_MOST_TAPS} elements",
        sized=False,
    ),
    checks.rank_is(0, 4, "input"),
    checks.not_empty(0),
)

register(
    OpDef(
        kind="CUSTOM:MaxPoolingWithArgmax2D",
        attrs=ArgmaxPoolAttrs,
        arity=(1, 1),
        outputs=2,
        dtypes=("FLOAT32 -> FLOAT32",),
        infer=_infer_pool,
        evaluate=_pool,
        rules=(*_RULES, Rule("windows_fit", _windows_fit, "the input is smaller than a window")),
        cost=_pool_cost,
    )
)

register(
    OpDef(
        kind="CUSTOM:MaxUnpooling2D",
        attrs=ArgmaxPoolAttrs,
        arity=(2, 2),
        required=2,
        dtypes=("FLOAT32 FLOAT32 -> FLOAT32",),
        infer=_infer_unpool,
        evaluate=_unpool,
        rules=(
            *_RULES,
            Rule("indices", _indices_fit, "each element of the input needs an index"),
        ),
        cost=lambda op: Cost(bytes=moves_bytes(op).bytes, arithmetic=16 * operand(op, 0).elements),
    )
)
