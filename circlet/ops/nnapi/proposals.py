"""GENERATE_PROPOSALS: anchors at each place of a map, moved by deltas and thinned."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.ir import DType, Op
from circlet.ops.nnapi.boxes import check_boxes, moved
from circlet.ops.nnapi.detections import hard_selected
from circlet.ops.nnapi.record import (
    Floats,
    attributes,
    channels_last,
    nnapi_kind,
    quantised,
    real,
    stored,
)
from circlet.ops.opdef import Arrays, Cost, Rule, TensorType
from circlet.ops.operands import moves_bytes, operand, sizes_agree, when_ranked

_PAIR, _BOX = 16, 128  # operations of a comparison of two boxes, and of moving one


def _placed(op: Op, anchors: Floats, height: int, width: int) -> Floats:
    """Anchors at each place, [height * width * anchors, 4]."""
    attrs = attributes(op)
    down = np.arange(height, dtype=np.float32) * attrs.real("height_stride")
    right = np.arange(width, dtype=np.float32) * attrs.real("width_stride")
    shifts = np.stack(np.broadcast_arrays(right[None, :], down[:, None]) * 2, axis=-1)
    placed: Floats = (shifts[:, :, None] + anchors).reshape(-1, 4)
    return placed


def _large_inside(boxes: Floats, image: Floats, least: np.float32) -> np.ndarray:
    """Whether both sides of boxes are longer than `least`, and centres in the image."""
    sides = boxes[:, 2:] - boxes[:, :2]
    centres = boxes[:, :2] + sides / np.float32(2)
    return np.asarray(((sides > least) & (centres < image[::-1])).all(axis=1))


def _of_image(op: Op, boxes: Floats, scores: Floats, image: Floats) -> np.ndarray:
    """Places of what is proposed for one image."""
    attrs, places = attributes(op), np.arange(len(scores))
    before, after = attrs.whole("pre_nms_max"), attrs.whole("post_nms_max")
    if 0 < before < len(places):
        places = np.argsort(-scores, kind="stable")[:before]
    places = places[_large_inside(boxes[places], image, attrs.real("min_size"))]
    most = after if after > 0 else -1
    kept = hard_selected(boxes[places], scores[places], most, attrs.real("iou_threshold"))
    return places[kept]


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    scores, deltas = (channels_last(op, real(op, index, arrays)) for index in (0, 1))
    anchors, images = real(op, 2, arrays), real(op, 3, arrays)
    placed = _placed(op, anchors, *scores.shape[1:3])
    check_boxes(op, placed)
    found: list[tuple[Floats, Floats, np.ndarray]] = []
    for batch, image in enumerate(images):
        boxes, own = moved(placed, deltas[batch].reshape(-1, 4), image), scores[batch].reshape(-1)
        kept = _of_image(op, boxes, own, image)
        found.append((own[kept], boxes[kept], np.full(len(kept), batch, np.int32)))
    values, corners, batches = (np.concatenate(each) for each in zip(*found, strict=True))
    return [stored(op, 0, values), stored(op, 1, corners), batches]


def _types(op: Op) -> list[TensorType]:
    score = operand(op, 0).dtype
    box = DType.FLOAT32 if score is DType.FLOAT32 else DType.UINT16
    return [
        TensorType(score, (None,)),
        TensorType(box, (None, 4)),
        TensorType(DType.INT32, (None,)),
    ]


def _fits(op: Op) -> bool:
    scores, deltas, anchors, images = (operand(op, index).shape for index in range(4))
    if (len(scores), len(deltas), len(anchors), len(images)) != (4, 4, 2, 2):
        return False
    channel = 1 if attributes(op).whole("nchw") else 3
    same = [sizes_agree(scores[a : a + 1], deltas[a : a + 1]) for a in range(4) if a != channel]
    count, four = scores[channel], deltas[channel]
    counts = count is None or four in (None, 4 * count)
    whole = sizes_agree((count,), anchors[:1]) and sizes_agree(scores[:1], images[:1])
    return all(same) and counts and whole and anchors[1] == 4 and images[1] == 2


def proposal_counts(op: Op, scores: tuple[int, ...]) -> tuple[int, int]:
    """How many boxes of an image are looked at, and how many come out, for scores of a shape."""
    attrs, each = attributes(op), prod(scores[1:])
    before, after = attrs.whole("pre_nms_max"), attrs.whole("post_nms_max")
    looked_at = min(before, each) if before > 0 else each
    return looked_at, min(after, looked_at) if after > 0 else looked_at


def _cost(op: Op) -> Cost:
    scores = operand(op, 0)
    kept = min(proposal_counts(op, scores.static_shape))
    return Cost(bytes=moves_bytes(op).bytes, operations=scores.elements * (_BOX + _PAIR * kept))


nnapi_kind(
    "GENERATE_PROPOSALS",
    _evaluate,
    _types,
    _cost,
    inputs=(4, 4),
    outputs=3,
    dtypes=(
        "FLOAT32 FLOAT32 FLOAT32 FLOAT32 -> FLOAT32",
        "UINT8 UINT8 INT16 UINT16 -> UINT8",
        "INT8 INT8 INT16 UINT16 -> INT8",
    ),
    rules=(
        when_ranked("sizes", _fits, "it needs scores, four deltas of each, anchors and images"),
        Rule(
            "strides",
            lambda op: all(attributes(op).real(n) > 0 for n in ("height_stride", "width_stride")),
            "strides must be positive",
            sized=False,
        ),
        quantised(0, 1, 2, 3, outputs=(0, 1)),
    ),
)
