"""TFLite_Detection_PostProcess: boxes from encodings and anchors, thinned by overlap.

Box arithmetic is that of the reference kernel: centres and sides in double, corners, areas and
overlaps in float.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.guard import look
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import is_affine, moves_bytes, operand, present, scale_of, zero_of

KIND = "CUSTOM:TFLite_Detection_PostProcess"
_MOST = 1 << 16
_PAIR, _BOX = 16, 128  # operations of a comparison of two boxes, and of decoding one


@dataclass(frozen=True)
class DetectionAttrs:
    """Counts, thresholds and box scales, named as in the option map of files."""

    max_detections: int = 0
    max_classes_per_detection: int = 0
    detections_per_class: int = 100
    use_regular_nms: bool = False
    nms_score_threshold: float = 0.0
    nms_iou_threshold: float = 0.0
    num_classes: int = 0
    y_scale: float = 0.0
    x_scale: float = 0.0
    h_scale: float = 0.0
    w_scale: float = 0.0


def output_sizes(attrs: DetectionAttrs) -> list[tuple[int, ...]]:
    """Sizes of the boxes, classes, scores and their number."""
    rows = attrs.max_detections * attrs.max_classes_per_detection
    return [(1, rows, 4), (1, rows), (1, rows), (1,)]


def classes_per_box(attrs: DetectionAttrs) -> int:
    """Output rows that one detected box takes."""
    return 1 if attrs.use_regular_nms else min(attrs.max_classes_per_detection, attrs.num_classes)


def _infer(op: Op) -> list[TensorType]:
    return [
        TensorType(DType.FLOAT32, shape) for shape in output_sizes(op.attributes(DetectionAttrs))
    ]


def _counts_valid(op: Op) -> bool:
    attrs = op.attributes(DetectionAttrs)
    counts = (attrs.max_detections, attrs.max_classes_per_detection, attrs.num_classes)
    return all(1 <= n <= _MOST for n in (*counts, attrs.detections_per_class)) and (
        attrs.max_detections * attrs.max_classes_per_detection <= _MOST
    )


def _numbers_valid(op: Op) -> bool:
    attrs = op.attributes(DetectionAttrs)
    scales = (attrs.y_scale, attrs.x_scale, attrs.h_scale, attrs.w_scale)
    bounds = np.isfinite([attrs.nms_score_threshold, attrs.nms_iou_threshold])
    return bool(bounds.all()) and all(np.isfinite(scale) and scale > 0 for scale in scales)


def _sizes_fit(op: Op) -> bool:
    boxes, scores, anchors = (operand(op, index).shape for index in range(3))
    if (len(boxes), len(scores), len(anchors)) != (3, 3, 2) or None in (*boxes, *scores, *anchors):
        return False
    extra = (scores[2] or 0) - op.attributes(DetectionAttrs).num_classes
    fits = boxes[0] == scores[0] == 1 and boxes[1] == scores[1] == anchors[0] and 0 <= extra <= 1
    return fits and (boxes[2] or 0) >= 4 and anchors[1] == 4 and bool(boxes[1])


def _scales_given(op: Op) -> bool:
    tensors = [operand(op, index) for index in range(3)]
    return all(t.dtype is DType.FLOAT32 or is_affine(t) for t in tensors)


def real_boxes(op: Op, index: int, stored: np.ndarray) -> np.ndarray:
    """Encodings or anchors as floats."""
    if stored.dtype == np.float32:
        return stored
    tensor = operand(op, index)
    centred = stored.astype(np.float32) - np.float32(zero_of(tensor))
    return np.float32(scale_of(tensor)) * centred


def _real_scores(op: Op, stored: np.ndarray) -> np.ndarray:
    if stored.dtype == np.float32:
        return stored
    tensor = operand(op, 1)
    return (scale_of(tensor) * (stored.astype(np.int32) - zero_of(tensor))).astype(np.float32)


def decoded_boxes(attrs: DetectionAttrs, encodings: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """Corners (ymin, xmin, ymax, xmax) of encodings (y, x, h, w) relative to anchors."""
    code, anchor = encodings[:, :4].astype(np.float64), anchors.astype(np.float64)
    scales = np.array([attrs.y_scale, attrs.x_scale, attrs.h_scale, attrs.w_scale], np.float32)
    scaled = code / scales.astype(np.float64)
    centre = (scaled[:, :2] * anchor[:, 2:] + anchor[:, :2]).astype(np.float32)
    half = (0.5 * np.exp(scaled[:, 2:]) * anchor[:, 2:]).astype(np.float32)
    return np.concatenate([centre - half, centre + half], axis=1)


def _overlaps(boxes: np.ndarray, one: np.ndarray) -> np.ndarray:
    """Shared area over joint area of each box with one box; 0 where a box has no area."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    area = (one[2] - one[0]) * (one[3] - one[1])
    low, high = np.maximum(boxes[:, :2], one[:2]), np.minimum(boxes[:, 2:], one[2:])
    sides = np.maximum(high - low, np.float32(0))
    shared = sides[:, 0] * sides[:, 1]
    with np.errstate(all="ignore"):
        ratio = shared / (areas + area - shared)
    return np.where((areas <= 0) | (area <= 0), np.float32(0), ratio)


def _selected(boxes: np.ndarray, scores: np.ndarray, attrs: DetectionAttrs, most: int) -> list[int]:
    """Boxes in falling order of score, each at most so close to those before it."""
    kept = np.flatnonzero(scores >= np.float32(attrs.nms_score_threshold))
    order = kept[np.argsort(-scores[kept], kind="stable")]
    ranked = boxes[order]
    alive, chosen = np.ones(len(order), bool), list[int]()
    for place, box in enumerate(order):
        if len(chosen) == most:
            break
        if alive[place]:
            look()
            chosen.append(int(box))
            alive &= _overlaps(ranked, boxes[box]) <= np.float32(attrs.nms_iou_threshold)
    return chosen


Detection = tuple[int, int, np.float32]


def _fast(boxes: np.ndarray, scores: np.ndarray, attrs: DetectionAttrs) -> list[Detection]:
    """(box, class, score) rows: boxes thinned by their best score, then their best classes."""
    per_box = classes_per_box(attrs)
    ranked = np.argsort(-scores, axis=1, kind="stable")[:, :per_box]
    best = np.take_along_axis(scores, ranked[:, :1], 1)[:, 0]
    chosen = _selected(boxes, best, attrs, attrs.max_detections)
    return [(box, int(c), scores[box, c]) for box in chosen for c in ranked[box]]


def _regular(boxes: np.ndarray, scores: np.ndarray, attrs: DetectionAttrs) -> list[Detection]:
    """(box, class, score) rows: boxes thinned class by class, then the best of all."""
    best: list[Detection] = []
    for label in range(attrs.num_classes):
        column = scores[:, label]
        chosen = _selected(boxes, column, attrs, attrs.detections_per_class)
        best += [(box, label, column[box]) for box in chosen]
        best = sorted(best, key=lambda row: -row[2])[: attrs.max_detections]
    return best


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    attrs, (codes, stored, anchors) = (
        op.attributes(DetectionAttrs),
        (present(array) for array in inputs),
    )
    if codes.ndim != 3 or stored.ndim != 3 or anchors.shape != (codes.shape[1], 4):
        why = f"encodings {codes.shape}, scores {stored.shape}, anchors {anchors.shape}"
        raise GraphError("the operands of the detection do not fit", where=op.name, why=why)
    boxes = decoded_boxes(attrs, real_boxes(op, 0, codes[0]), real_boxes(op, 2, anchors))
    scores = _real_scores(op, stored[0])[:, stored.shape[2] - attrs.num_classes :]
    rows = (_regular if attrs.use_regular_nms else _fast)(boxes, scores, attrs)
    found = [np.zeros(shape, np.float32) for shape in output_sizes(attrs)]
    for place, (box, label, score) in enumerate(rows):
        found[0][0, place], found[1][0, place], found[2][0, place] = boxes[box], label, score
    found[3][0] = len(rows) // classes_per_box(attrs)
    return found


def _cost(op: Op) -> Cost:
    """Decoding, finding the best classes of a box, and comparing boxes with those chosen."""
    attrs, boxes = op.attributes(DetectionAttrs), prod(operand(op, 2).static_shape[:1])
    kept, classes = attrs.max_detections, attrs.num_classes
    if attrs.use_regular_nms:
        pairs = classes * min(boxes, attrs.detections_per_class)
        ranks = classes * (boxes.bit_length() + kept)
    else:
        pairs = min(boxes, kept)
        ranks = classes * classes_per_box(attrs) + boxes.bit_length()
    each = _BOX + _PAIR * pairs + ranks
    return Cost(bytes=moves_bytes(op).bytes, operations=boxes * each)


register(
    OpDef(
        kind=KIND,
        attrs=DetectionAttrs,
        arity=(3, 3),
        required=3,
        outputs=4,
        dtypes=("FLOAT32 FLOAT32 FLOAT32 -> FLOAT32", "UINT8 UINT8 UINT8 -> FLOAT32"),
        infer=_infer,
        evaluate=_evaluate,
        rules=(
            Rule("counts", _counts_valid, f"counts must be between 1 and {_MOST}"),
            Rule("numbers", _numbers_valid, "thresholds must be finite and box scales positive"),
            Rule("sizes", _sizes_fit, "one code, score row and anchor per box, of one image"),
            Rule("scales", _scales_given, "8-bit operands need one scale and zero point"),
        ),
        numerics="tolerance",
        cost=_cost,
    )
)
