"""NON_MAX_SUPPRESSION_V4 and _V5: boxes in falling order of score, thinned by overlap."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType, register
from circlet.ops.operands import (
    count,
    infer_ranked,
    known_ints,
    operand,
    present,
    when_ranked,
)

_MOST = 1 << 20


def _kept(op: Op) -> int | None:
    values = known_ints(op.input(2))
    return values[0] if values is not None and len(values) == 1 else None


def _infer(op: Op) -> list[TensorType]:
    indices = TensorType(DType.INT32, (_kept(op),))
    found = TensorType(DType.INT32, ())
    if op.kind == "NON_MAX_SUPPRESSION_V4":
        return [indices, found]
    return [indices, TensorType(DType.FLOAT32, (_kept(op),)), found]


def _boxes_fit(op: Op) -> bool:
    boxes, scores = operand(op, 0).shape, operand(op, 1).shape
    if len(boxes) != 2 or boxes[1] not in (4, None) or len(scores) != 1:
        return False
    return boxes[0] == scores[0] or None in (boxes[0], scores[0])


def _single_values(op: Op) -> bool:
    tensors = [operand(op, index) for index in range(2, len(op.inputs))]
    return all(count(tensor.shape) in (1, None) for tensor in tensors)


def _count_valid(op: Op) -> bool:
    return 0 <= (_kept(op) or 0) <= _MOST


def _overlap(first: np.ndarray, second: np.ndarray) -> np.float32:
    """Shared area over joint area of two boxes given by any two opposite corners."""
    low = [np.minimum(box[:2], box[2:]) for box in (first, second)]
    high = [np.maximum(box[:2], box[2:]) for box in (first, second)]
    areas = [np.prod(top - bottom) for bottom, top in zip(low, high, strict=True)]
    if min(areas) <= 0:
        return np.float32(0)
    sides = np.maximum(np.minimum(*high) - np.maximum(*low), np.float32(0))
    shared = sides[0] * sides[1]
    return np.float32(shared / (areas[0] + areas[1] - shared))


def _selected(
    boxes: np.ndarray, scores: np.ndarray, most: int, limits: tuple[float, float, float]
) -> list[tuple[int, np.float32]]:
    """(box, score) rows; scores fall with overlap where sigma is not 0.

    A box is compared with those chosen since it was last compared, newest first.
    """
    overlap, threshold, sigma = (np.float32(limit) for limit in limits)
    scale = np.float32(-0.5) / sigma if sigma > 0 else np.float32(0)
    queue = [(-score, box, 0) for box, score in enumerate(scores) if score > threshold]
    heapify(queue)
    chosen: list[tuple[int, np.float32]] = []
    while queue and len(chosen) < most:
        falling, box, seen = heappop(queue)
        score, dropped = -falling, False
        for other, _ in reversed(chosen[seen:]):
            ratio = _overlap(boxes[box], boxes[other])
            if ratio >= overlap:
                dropped = True
                break
            score = score * np.exp(scale * ratio * ratio, dtype=np.float32)
            if score <= threshold:
                break
        if dropped or not score > threshold:  # not a number is not above it
            continue
        if score == -falling:
            chosen.append((box, score))
        else:
            heappush(queue, (-score, box, len(chosen)))
    return chosen


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    boxes, scores = present(inputs[0]), present(inputs[1])
    rest = [present(array).reshape(-1) for array in inputs[2:]]
    fits = boxes.ndim == 2 and boxes.shape[1] == 4 and scores.shape == boxes.shape[:1]
    if not fits or any(array.size != 1 for array in rest) or not 0 <= rest[0][0] <= _MOST:
        raise GraphError(f"{op.label}'s operands do not fit", where=op.name)
    most, is_soft = int(rest[0][0]), op.kind == "NON_MAX_SUPPRESSION_V5"
    limits = float(rest[1][0]), float(rest[2][0]), float(rest[3][0]) if is_soft else 0.0
    chosen = _selected(boxes, scores, most, limits)
    indices, kept = np.zeros(most, np.int32), np.zeros(most, np.float32)
    for place, (box, score) in enumerate(chosen):
        indices[place], kept[place] = box, score
    found = np.array(len(chosen), np.int32)
    return [indices, kept, found] if is_soft else [indices, found]


for _kind, _outputs in (("NON_MAX_SUPPRESSION_V4", 2), ("NON_MAX_SUPPRESSION_V5", 3)):
    _inputs = 3 + _outputs
    register(
        OpDef(
            kind=_kind,
            arity=(_inputs, _inputs),
            required=_inputs,
            outputs=_outputs,
            dtypes=(f"FLOAT32 FLOAT32 INT32{' FLOAT32' * (_inputs - 3)} -> INT32",),
            infer=infer_ranked(_infer),
            evaluate=_evaluate,
            rules=(
                Rule("values", _single_values, "count and thresholds must be single values"),
                Rule("count", _count_valid, f"the count must be between 0 and {_MOST}"),
                when_ranked("boxes", _boxes_fit, "there must be one score per box of four numbers"),
            ),
            numerics="tolerance",
        )
    )
