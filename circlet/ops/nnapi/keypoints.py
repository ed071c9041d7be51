"""HEATMAP_MAX_KEYPOINT: where maps are highest, between their pixels."""

from __future__ import annotations

import numpy as np

from circlet.ir import Op
from circlet.ops.nnapi.boxes import check_boxes
from circlet.ops.nnapi.record import (
    Floats,
    attributes,
    channels_last,
    nnapi_kind,
    quantised,
    real,
    stored,
)
from circlet.ops.opdef import Arrays, Cost, TensorType
from circlet.ops.operands import moves_bytes, operand, sizes_agree, when_ranked

_FARTHEST = np.float32(1.5)
_WORK = 128  # operations of a keypoint besides those of finding the highest pixel


def _neighbours(maps: Floats, rows: np.ndarray, columns: np.ndarray) -> Floats:
    """The 3 by 3 pixels around a place of each map; maps are mirrored at their borders.

    Args:
        maps: [count, size, size].
        rows, columns: [count].
    """
    size, steps = maps.shape[1], np.arange(-1, 2)
    places = [np.abs(place[:, None] + steps) for place in (rows, columns)]
    down, right = (np.where(each >= size, 2 * size - 2 - each, each) for each in places)
    found: Floats = maps[np.arange(len(maps))[:, None, None], down[:, :, None], right[:, None, :]]
    return found


def _refined(grid: Floats, tolerance: np.float32) -> tuple[Floats, Floats]:
    """How far the highest point lies from the middle, [count, (x, y)], and how high it is.

    A paraboloid goes through the pixels; where it has no single extremum the middle stays.
    """
    two, four = np.float32(2), np.float32(4)
    middle = grid[:, 1, 1]
    slope = np.stack(
        [-(grid[:, 1, 2] - grid[:, 1, 0]) / two, -(grid[:, 2, 1] - grid[:, 0, 1]) / two], axis=1
    )
    xx = grid[:, 1, 0] - two * middle + grid[:, 1, 2]
    yy = grid[:, 0, 1] - two * middle + grid[:, 2, 1]
    xy = (grid[:, 2, 2] - grid[:, 2, 0] - grid[:, 0, 2] + grid[:, 0, 0]) / four
    determinant = xx * yy - xy * xy
    solvable = np.abs(determinant) >= tolerance + tolerance * (xx * yy)
    with np.errstate(all="ignore"):
        x = (yy * slope[:, 0] - xy * slope[:, 1]) / determinant
        y = (xx * slope[:, 1] - xy * slope[:, 0]) / determinant
        shift = np.where(solvable[:, None], np.stack([x, y], axis=1), np.float32(0))
        farthest = np.abs(shift).max(axis=1, keepdims=True)
        shift = np.where(farthest > _FARTHEST, shift * (_FARTHEST / farthest), shift)
    x, y = shift[:, 0], shift[:, 1]
    bend = ((xx * x + xy * y) * x + (xy * x + yy * y) * y) / two
    height = middle - slope[:, 0] * x - slope[:, 1] * y + bend
    return shift.astype(np.float32), height.astype(np.float32)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    maps, boxes = channels_last(op, real(op, 0, arrays)), real(op, 1, arrays)
    check_boxes(op, boxes)
    count, size, _, points = maps.shape
    flat = maps.transpose(0, 3, 1, 2).reshape(count * points, size, size)
    rows, columns = np.divmod(flat.reshape(len(flat), -1).argmax(axis=1), size)
    tolerance = attributes(op).real("tolerance")
    shift, height = _refined(_neighbours(flat, rows, columns), tolerance)
    place = (np.stack([columns, rows], axis=1) + shift + np.float32(0.5)) / np.float32(size)
    sides = (boxes[:, 2:] - boxes[:, :2])[:, None]
    at = place.reshape(count, points, 2).astype(np.float32) * sides + boxes[:, None, :2]
    return [stored(op, 0, height.reshape(count, points)), stored(op, 1, at.astype(np.float32))]


def _types(op: Op) -> list[TensorType]:
    maps, boxes = operand(op, 0), operand(op, 1)
    count, points = maps.shape[0], maps.shape[1 if attributes(op).whole("nchw") else 3]
    return [
        TensorType(maps.dtype, (count, points)),
        TensorType(boxes.dtype, (count, points, 2)),
    ]


def _fits(op: Op) -> bool:
    maps, boxes = operand(op, 0).shape, operand(op, 1).shape
    if (len(maps), len(boxes)) != (4, 2):
        return False
    first = 2 if attributes(op).whole("nchw") else 1
    square = sizes_agree(maps[first : first + 1], maps[first + 1 : first + 2])
    large = all((size or 2) >= 2 for size in maps[first : first + 2])
    return square and large and sizes_agree(maps[:1], boxes[:1]) and boxes[1] in (None, 4)


def _cost(op: Op) -> Cost:
    work = operand(op, 0).elements + _WORK * op.outputs[0].elements
    return Cost(bytes=moves_bytes(op).bytes, arithmetic=work)


nnapi_kind(
    "HEATMAP_MAX_KEYPOINT",
    _evaluate,
    _types,
    _cost,
    inputs=(2, 2),
    outputs=2,
    dtypes=(
        "FLOAT32 FLOAT32 -> FLOAT32",
        "UINT8 UINT16 -> UINT8",
        "INT8 UINT16 -> INT8",
    ),
    rules=(
        when_ranked("sizes", _fits, "it needs square maps of at least 2 by 2, and a box for each"),
        quantised(0, 1, outputs=(0, 1)),
    ),
)
