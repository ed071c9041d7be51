"""AXIS_ALIGNED_BBOX_TRANSFORM, and what all operations over boxes share.

A box is (x1, y1, x2, y2), its corners in pixels.
"""

from __future__ import annotations

import numpy as np

from circlet.ir import Op
from circlet.ops.nnapi.record import Floats, nnapi_kind, quantised, real, refuse, stored
from circlet.ops.opdef import Arrays, Cost, TensorType
from circlet.ops.operands import moves_bytes, operand, present, sizes_agree, when_ranked

_WORK = 64  # operations of a box that is moved


def moved(boxes: Floats, deltas: Floats, image: Floats) -> Floats:
    """Boxes by deltas of their centres and sides, cut to an image.

    Args:
        boxes: [count, 4].
        deltas: [count, classes * 4] of (x, y, w, h) each.
        image: [count, 2] or [2], height and width.
    """
    count, half = len(boxes), np.float32(0.5)
    by_class = deltas.reshape(count, deltas.shape[1] // 4, 4)
    sides = (boxes[:, 2:] - boxes[:, :2])[:, None]
    centres = ((boxes[:, :2] + boxes[:, 2:]) * half)[:, None] + by_class[..., :2] * sides
    with np.errstate(over="ignore", invalid="ignore"):
        halves = np.exp(by_class[..., 2:]) * sides * half
        corners = np.concatenate([centres - halves, centres + halves], axis=2)
        limits = np.broadcast_to(image, (count, 2))[:, [1, 0, 1, 0]][:, None]
        cut = np.minimum(np.maximum(corners, np.float32(0)), limits)
    made: Floats = cut.reshape(deltas.shape).astype(np.float32)
    return made


def overlaps(boxes: Floats, one: Floats) -> Floats:
    """Shared area over joint area of each box with one box; NaN where neither has an area."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    area = (one[2] - one[0]) * (one[3] - one[1])
    low, high = np.maximum(boxes[:, :2], one[:2]), np.minimum(boxes[:, 2:], one[2:])
    sides = np.maximum(high - low, np.float32(0))
    shared = sides[:, 0] * sides[:, 1]
    with np.errstate(all="ignore"):
        ratio: Floats = shared / (areas + area - shared)
    return ratio


def check_boxes(op: Op, boxes: Floats) -> None:
    """Corners must be in order; InputError."""
    ordered = (boxes[..., 0] <= boxes[..., 2]) & (boxes[..., 1] <= boxes[..., 3])
    refuse(op, ordered.all(), "the corners of a box are not in order")


def check_batches(op: Op, batches: np.ndarray, count: int) -> None:
    """Batches must exist; InputError."""
    exist = (batches >= 0) & (batches < count)
    refuse(op, exist.all(), f"a box is of a batch that does not exist; there are {count}")


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    boxes, deltas, images = (real(op, index, arrays) for index in (0, 1, 3))
    batches = present(arrays[2]).reshape(-1)
    check_boxes(op, boxes)
    check_batches(op, batches, len(images))
    return [stored(op, 0, moved(boxes, deltas, images[batches]))]


def _fits(op: Op) -> bool:
    boxes, deltas, batches, images = (operand(op, index).shape for index in range(4))
    if (len(boxes), len(deltas), len(batches), len(images)) != (2, 2, 1, 2):
        return False
    rows = sizes_agree(boxes[:1], deltas[:1]) and sizes_agree(boxes[:1], batches)
    whole = deltas[1] is None or (deltas[1] > 0 and deltas[1] % 4 == 0)
    return rows and whole and boxes[1] in (None, 4) and images[1] in (None, 2)


nnapi_kind(
    "AXIS_ALIGNED_BBOX_TRANSFORM",
    _evaluate,
    lambda op: [TensorType(operand(op, 0).dtype, operand(op, 1).shape)],
    lambda op: Cost(bytes=moves_bytes(op).bytes, arithmetic=_WORK * operand(op, 1).elements),
    inputs=(4, 4),
    dtypes=(
        "FLOAT32 FLOAT32 INT32 FLOAT32 -> FLOAT32",
        "UINT16 UINT8 INT32 UINT16 -> UINT16",
        "UINT16 INT8 INT32 UINT16 -> UINT16",
    ),
    rules=(
        when_ranked("sizes", _fits, "it needs four deltas of each class for a box, and its batch"),
        quantised(0, 1, 3, outputs=(0,)),
    ),
)
