"""NON_MAX_SUPPRESSION_V4 and _V5: boxes in falling order of score, thinned by overlap."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.guard import look
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import (
    count,
    infer_ranked,
    known_ints,
    moves_bytes,
    operand,
    present,
    when_ranked,
)

_MOST = 1 << 20
_PAIR, _SOFT_PAIR = 16, 64  # operations of a comparison of two boxes
_QUEUE = 64  # of taking a box from the queue


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


def _corners(boxes: np.ndarray) -> np.ndarray:
    """Lower corner, upper corner and area of boxes given by any two opposite corners."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high, np.prod(high - low, axis=1, keepdims=True)], axis=1)


def _overlaps(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Shared area over joint area of a box with others, as `_corners` gives them."""
    sides = np.minimum(one[2:4], others[:, 2:4]) - np.maximum(one[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, np.float32(0)), axis=1)
    ratio = shared / (one[4] + others[:, 4] - shared)
    return np.where((one[4] <= 0) | (others[:, 4] <= 0), np.float32(0), ratio)


def _reduced(
    score: np.float32, ratios: np.ndarray, limits: tuple[np.float32, np.float32, np.float32]
) -> np.float32:
    """The score of a box after its overlaps with those chosen, in order; NaN where it is none."""
    overlap, threshold, scale = limits
    scores = np.multiply.accumulate(np.append(score, np.exp(scale * ratios * ratios)))[1:]
    dropped, low = ratios >= overlap, scores <= threshold
    ends = np.flatnonzero(dropped | low)
    if len(ends):
        return np.float32(np.nan) if dropped[ends[0]] else scores[ends[0]]
    return scores[-1] if len(scores) else score


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
    corners, count = _corners(boxes), 0
    kept = np.empty((min(most, len(boxes)), corners.shape[1]), np.float32)
    chosen: list[tuple[int, np.float32]] = []
    while queue and count < most:
        look()
        falling, box, seen = heappop(queue)
        ratios = _overlaps(corners[box], kept[seen:count][::-1])
        score = _reduced(-falling, ratios, (overlap, threshold, scale))
        if not score > threshold:  # not a number is not above it
            continue
        if score == -falling:
            kept[count], count = corners[box], count + 1
            chosen.append((box, score))
        else:
            heappush(queue, (-score, box, count))
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


def _cost(op: Op) -> Cost:
    """Each box is compared with each that was chosen; Soft-NMS takes a power for each pair."""
    boxes = operand(op, 1).elements
    kept = min(boxes, op.outputs[0].elements if _kept(op) is None else _kept(op) or 0)
    each = _SOFT_PAIR if op.kind == "NON_MAX_SUPPRESSION_V5" else _PAIR
    return Cost(bytes=moves_bytes(op).bytes, operations=boxes * (each * kept + _QUEUE))


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
            cost=_cost,
        )
    )
