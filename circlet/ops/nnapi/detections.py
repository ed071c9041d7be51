"""BOX_WITH_NMS_LIMIT and DETECTION_POSTPROCESSING: boxes thinned by how they overlap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from circlet.ir import DType, Op
from circlet.ops.decomposition import Parts
from circlet.ops.detection import KIND as DETECTION_KIND
from circlet.ops.detection import DetectionAttrs, classes_per_box
from circlet.ops.guard import look
from circlet.ops.nnapi.boxes import check_boxes, overlaps
from circlet.ops.nnapi.record import (
    Floats,
    NnapiAttrs,
    attributes,
    nnapi_kind,
    quantised,
    real,
    stored,
)
from circlet.ops.opdef import Arrays, Cost, Rule, TensorType
from circlet.ops.operands import moves_bytes, operand, present, sizes_agree, when_ranked
from circlet.ops.quantize import CastAttrs

Places = npt.NDArray[np.int64]
Weaken = Callable[[Floats], Floats]
_PAIR, _BOX = 16, 128  # operations of a comparison of two boxes, and of decoding one
_MOST = 1 << 16
_HARD, _LINEAR, _GAUSSIAN = 0, 1, 2


def hard_selected(boxes: Floats, scores: Floats, most: int, overlap: np.float32) -> Places:
    """Places of boxes by falling score, none of which overlaps one before it so much.

    Args:
        boxes: [count, 4].
        scores: [count].
        most: How many to take; all where it is negative.
        overlap: Where boxes count as the same.
    """
    left = np.arange(len(scores))
    chosen: list[int] = []
    while len(left) and (most < 0 or len(chosen) < most):
        look()
        best = int(np.argmax(scores[left]))
        chosen.append(int(left[best]))
        others = np.delete(left, best)
        left = others[~(overlaps(boxes[others], boxes[chosen[-1]]) >= overlap)]
    return np.array(chosen, np.int64)


def _soft_selected(
    boxes: Floats, scores: Floats, most: int, weaken: Weaken, least: np.float32
) -> Places:
    """As `hard_selected`, but overlaps weaken scores, in place; below `least` a box goes."""
    left = np.arange(len(scores))
    chosen: list[int] = []
    while len(left) and (most < 0 or len(chosen) < most):
        look()
        best = int(np.argmax(scores[left]))
        chosen.append(int(left[best]))
        others = np.delete(left, best)
        scores[others] *= weaken(overlaps(boxes[others], boxes[chosen[-1]]))
        left = others[~(scores[others] < least)]
    return np.array(chosen, np.int64)


def _weakening(attrs: NnapiAttrs) -> Weaken:
    overlap, sigma, one = attrs.real("iou_threshold"), attrs.real("sigma"), np.float32(1)
    if attrs.whole("kernel") == _HARD:
        return lambda iou: (iou < overlap).astype(np.float32)
    if attrs.whole("kernel") == _LINEAR:
        return lambda iou: np.where(iou < overlap, one, one - iou)
    return lambda iou: np.exp(-one * iou * iou / sigma)


def _of_batch(op: Op, boxes: Floats, scores: Floats) -> list[tuple[int, int]]:
    """(box, class) of what is kept of one batch; `scores` are weakened. Class 0 is background."""
    attrs = attributes(op)
    most, weaken = attrs.whole("max_detections"), _weakening(attrs)
    found: list[tuple[int, int]] = []
    for label in range(1, scores.shape[1]):
        places = np.flatnonzero(scores[:, label] > attrs.real("score_threshold"))
        own = scores[places, label]
        taken = boxes[places, label]
        kept = _soft_selected(taken, own, most, weaken, attrs.real("nms_score_threshold"))
        scores[places, label] = own
        found += [(int(place), label) for place in places[kept]]
    best = _best_first(found, scores)
    return sorted(best if most < 0 else best[:most], key=lambda each: each[1])


def _best_first(found: list[tuple[int, int]], scores: Floats) -> list[tuple[int, int]]:
    """Pairs by falling score, which is that of a box and a class; those without a number last."""
    order = np.argsort(np.array([-scores[each] for each in found]), kind="stable")
    return [found[place] for place in order]


def _limit(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Boxes of one batch stand together; they are given back batch by batch, class by class."""
    scores, boxes = real(op, 0, arrays).copy(), real(op, 1, arrays)
    batches, given = present(arrays[2]).reshape(-1), present(arrays[1])
    by_class = boxes.reshape(*scores.shape, 4)
    check_boxes(op, by_class)
    starts = np.flatnonzero(np.diff(batches, prepend=batches[:1] - 1))
    kept: list[tuple[int, int]] = []
    for start, end in zip(starts, [*starts[1:], len(batches)], strict=False):
        found = _of_batch(op, by_class[start:end], scores[start:end])
        kept += [(int(start) + box, label) for box, label in found]
    rows = np.array([row for row, _ in kept], np.int64)
    labels = np.array([label for _, label in kept], np.int64)
    return [
        stored(op, 0, scores[rows, labels]),
        given.reshape(*scores.shape, 4)[rows, labels],
        labels.astype(np.int32),
        batches[rows].astype(np.int32),
    ]


def _limit_types(op: Op) -> list[TensorType]:
    score, box = operand(op, 0).dtype, operand(op, 1).dtype
    whole = TensorType(DType.INT32, (None,))
    return [TensorType(score, (None,)), TensorType(box, (None, 4)), whole, whole]


def _limit_fits(op: Op) -> bool:
    scores, boxes, batches = (operand(op, index).shape for index in range(3))
    if (len(scores), len(boxes), len(batches)) != (2, 2, 1):
        return False
    rows = sizes_agree(scores[:1], boxes[:1]) and sizes_agree(scores[:1], batches)
    return rows and None not in (scores[1], boxes[1]) and boxes[1] == 4 * (scores[1] or 0)


def _limit_cost(op: Op) -> Cost:
    scores, most = operand(op, 0), attributes(op).whole("max_detections")
    boxes = scores.static_shape[0] if scores.shape else 0
    turns = boxes if most < 0 else min(boxes, most)
    return Cost(bytes=moves_bytes(op).bytes, operations=scores.elements * (_BOX + _PAIR * turns))


nnapi_kind(
    "BOX_WITH_NMS_LIMIT",
    _limit,
    _limit_types,
    _limit_cost,
    inputs=(3, 3),
    outputs=4,
    dtypes=(
        "FLOAT32 FLOAT32 INT32 -> FLOAT32",
        "UINT8 UINT16 INT32 -> UINT8",
        "INT8 UINT16 INT32 -> INT8",
    ),
    rules=(
        when_ranked("sizes", _limit_fits, "it needs scores and a box for each class, and batches"),
        Rule(
            "kernel",
            lambda op: attributes(op).whole("kernel") in (_HARD, _LINEAR, _GAUSSIAN),
            "the way in which overlaps weaken scores must be 0, 1 or 2",
            sized=False,
        ),
        quantised(0, 1, outputs=(0, 1)),
    ),
)


def _decoded(op: Op, deltas: Floats, anchors: Floats) -> Floats:
    """Corners (ymin, xmin, ymax, xmax) of deltas (y, x, h, w) relative to anchors."""
    attrs, half = attributes(op), np.float32(0.5)
    scales = np.array([attrs.real(f"scale_{side}") for side in "yxhw"], np.float32)
    scaled = deltas[..., :4] / scales
    centres = anchors[:, :2] + anchors[:, 2:] * scaled[..., :2]
    with np.errstate(over="ignore"):
        halves = anchors[:, 2:] * np.exp(scaled[..., 2:]) * half
    return np.concatenate([centres - halves, centres + halves], axis=-1)


def _regular(op: Op, boxes: Floats, scores: Floats) -> list[tuple[int, int]]:
    """(box, class): thinned class by class, then the best of all."""
    attrs, found = attributes(op), list[tuple[int, int]]()
    for label in range(1, scores.shape[1]):
        places = np.flatnonzero(scores[:, label] > attrs.real("score_threshold"))
        kept = hard_selected(
            boxes[places],
            scores[places, label],
            attrs.whole("max_detections_per_class"),
            attrs.real("iou_threshold"),
        )
        found += [(int(place), label) for place in places[kept]]
    return _best_first(found, scores)[: attrs.whole("max_detections")]


def _fast(op: Op, boxes: Floats, scores: Floats) -> list[tuple[int, int]]:
    """(box, class): boxes thinned by their best score, then the best classes of each."""
    attrs = attributes(op)
    best = scores[:, 1:].max(axis=1)
    places = np.flatnonzero(best > attrs.real("score_threshold"))
    most, overlap = attrs.whole("max_detections"), attrs.real("iou_threshold")
    kept = places[hard_selected(boxes[places], best[places], most, overlap)]
    count = min(scores.shape[1] - 1, attrs.whole("max_classes_per_detection"))
    ranked = np.argsort(-scores[:, 1:], axis=1, kind="stable")[:, :count] + 1
    return [(int(box), int(label)) for box in kept for label in ranked[box]]


def _detect(op: Op, arrays: Arrays) -> list[np.ndarray]:
    attrs = attributes(op)
    scores, deltas, anchors = (real(op, index, arrays) for index in range(3))
    boxes = _decoded(op, deltas, anchors)
    rows = _rows(attrs)
    made = [np.zeros((len(scores), rows), np.float32), np.zeros((len(scores), rows, 4), np.float32)]
    labels, counts = np.zeros((len(scores), rows), np.int32), np.zeros(len(scores), np.int32)
    choose = _regular if attrs.whole("regular_nms") else _fast
    background = 0 if attrs.whole("background_in_label") else 1
    for batch in range(len(scores)):
        found = choose(op, boxes[batch], scores[batch])
        counts[batch] = len(found)
        for row, (box, label) in enumerate(found):
            made[0][batch, row], made[1][batch, row] = scores[batch, box, label], boxes[batch, box]
            labels[batch, row] = label - background
    return [made[0], made[1], labels, counts]


def _rows(attrs: NnapiAttrs) -> int:
    """Output rows of an image."""
    per_box = 1 if attrs.whole("regular_nms") else attrs.whole("max_classes_per_detection")
    return attrs.whole("max_detections") * per_box


def _detect_types(op: Op) -> list[TensorType]:
    batch, rows = operand(op, 0).shape[0], _rows(attributes(op))
    return [
        TensorType(DType.FLOAT32, (batch, rows)),
        TensorType(DType.FLOAT32, (batch, rows, 4)),
        TensorType(DType.INT32, (batch, rows)),
        TensorType(DType.INT32, (batch,)),
    ]


def _detect_fits(op: Op) -> bool:
    scores, deltas, anchors = (operand(op, index).shape for index in range(3))
    if (len(scores), len(deltas), len(anchors)) != (3, 3, 2):
        return False
    rows = sizes_agree(scores[:2], deltas[:2]) and sizes_agree(scores[1:2], anchors[:1])
    enough = (scores[2] or 2) > 1 and (deltas[2] or 4) >= 4 and anchors[1] in (None, 4)
    return rows and enough


def _counts_hold(op: Op) -> bool:
    attrs = attributes(op)
    own = "max_detections_per_class" if attrs.whole("regular_nms") else "max_classes_per_detection"
    return 1 <= attrs.whole("max_detections") <= _MOST and 1 <= attrs.whole(own) <= _MOST


def _scales_hold(op: Op) -> bool:
    return all(attributes(op).real(f"scale_{side}") > 0 for side in "yxhw")


def _detect_cost(op: Op) -> Cost:
    attrs, scores = attributes(op), operand(op, 0)
    limit = "max_detections_per_class" if attrs.whole("regular_nms") else "max_detections"
    boxes = scores.static_shape[1] if len(scores.shape) == 3 else 0
    turns = min(boxes, attrs.whole(limit))
    return Cost(bytes=moves_bytes(op).bytes, operations=scores.elements * (_BOX + _PAIR * turns))


def _of_one_image(op: Op) -> DetectionAttrs | None:
    """Attributes of TFLite_Detection_PostProcess, which finds the same; None where it cannot.

    There scores count from a threshold on, and here above it; boxes are too close above a
    threshold, and here from it on.
    """
    attrs, classes = attributes(op), (operand(op, 0).shape[2] or 1) - 1
    up, down = np.float32(np.inf), np.float32(-np.inf)
    score = float(np.nextafter(attrs.real("score_threshold"), up))
    overlap = float(np.nextafter(attrs.real("iou_threshold"), down))
    regular = bool(attrs.whole("regular_nms"))
    counts = _rows(attrs), classes
    scales = tuple(float(attrs.real(f"scale_{side}")) for side in "yxhw")
    if not np.isfinite((score, overlap, *scales)).all() or overlap < 0:
        return None
    if not all(1 <= count <= _MOST for count in counts):
        return None
    return DetectionAttrs(
        attrs.whole("max_detections"),
        1 if regular else attrs.whole("max_classes_per_detection"),
        attrs.whole("max_detections_per_class") if regular else 1,
        regular,
        score,
        overlap,
        classes,
        *scales,
    )


def _detect_decomposed(op: Op) -> list[Op]:
    """The detection of one image by LiteRT's operator, whose numbers are floats."""
    attrs = _of_one_image(op)
    sizes = [operand(op, index).shape for index in range(3)]
    if attrs is None or sizes[0][0] != 1 or any(None in shape for shape in sizes):
        return []
    parts, (scores, boxes, labels, counts) = Parts(op), op.outputs
    inputs = [operand(op, index) for index in (1, 0, 2)]
    made = parts.make_many(DETECTION_KIND, inputs, attrs, [boxes, None, scores, None])
    per_box = parts.scalar(float(classes_per_box(attrs)))
    found, rows = parts.make("MUL", [made[3], per_box]), _rows(attributes(op))
    label = made[1]
    if attributes(op).whole("background_in_label"):
        places = parts.constant(np.arange(rows, dtype=np.float32))
        is_found = parts.make("LESS", [places, found])
        label = parts.make(
            "ADD", [label, parts.make("CAST", [is_found], CastAttrs("BOOL", "FLOAT32"))]
        )
    whole = CastAttrs("FLOAT32", "INT32")
    parts.make("CAST", [label], whole, labels)
    parts.make("CAST", [found], whole, counts)
    return parts.ops


nnapi_kind(
    "DETECTION_POSTPROCESSING",
    _detect,
    _detect_types,
    _detect_cost,
    inputs=(3, 3),
    outputs=4,
    dtypes=("FLOAT32 FLOAT32 FLOAT32 -> FLOAT32",),
    rules=(
        when_ranked("sizes", _detect_fits, "it needs scores, deltas and an anchor for each box"),
        Rule("counts", _counts_hold, f"counts must be between 1 and {_MOST}", sized=False),
        Rule("scales", _scales_hold, "the scales of deltas must be positive", sized=False),
    ),
    decompose=_detect_decomposed,
)
