"""BOX_WITH_NMS_LIMIT and GENERATE_PROPOSALS of the Android Neural Networks API, over bounds."""

from __future__ import annotations

from circlet.backends.cpu.lower.bounded.counts import ref_or_none
from circlet.backends.cpu.lower.detection.boxes import number_fields, refuses
from circlet.backends.cpu.lower.printer import ELEMENT_TYPES
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    StopRef,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops.bounded import LIMIT, PROPOSALS
from circlet.ops.nnapi.proposals import proposal_counts
from circlet.ops.nnapi.record import attributes
from circlet.ops.operands import operand
from circlet.target.targets import Target

_LANES = 16  # of the widest vectors
_NUMBER_BYTES, _COLUMNS = 4, 5  # of what box_columns.h holds of each box
_FALLS = ("BOX_FALL_HARD", "BOX_FALL_LINEAR", "BOX_FALL_GAUSSIAN")
_OF_CANDIDATE = _COLUMNS + 3  # numbers that box_limit.h keeps of a box, and of one that is chosen
_OF_CHOSEN = 7
_OF_PLACE = 4  # numbers that proposals.h sorts of an anchor
_MOST = 1 << 30


def _call(
    op: Op,
    context: Context,
    kernel: Kernel,
    params: dict[str, ParamValue],
    numbers: int,
) -> None:
    """One call of a kernel that takes so many numbers of the scratch memory."""
    sources = [ref_or_none(context, tensor) for tensor in op.inputs]
    operands = [*sources, *map(TensorRef, op.outputs), StopRef()]
    scratch = numbers * _NUMBER_BYTES
    context.call(op, kernel, params, operands, op.outputs, scratch_bytes=scratch)


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).elements >= _MOST:
        return f"{_MOST} scores and more"
    return refuses(op, target)


def _lower_limit(op: Op, context: Context) -> None:
    scores, boxes, attrs = operand(op, 0), operand(op, 1), attributes(op)
    (rows, classes), most = scores.static_shape, attrs.whole("max_detections")
    chosen = max(1, (min(rows, most) if most >= 0 else rows) * (classes - 1))
    params: dict[str, ParamValue] = {
        "rows": rows,
        "classes": classes,
        "most": most,
        "chosen": chosen,
        "bar": float(attrs.real("score_threshold")),
        "overlap": float(attrs.real("iou_threshold")),
        "sigma": float(attrs.real("sigma")),
        "least": float(attrs.real("nms_score_threshold")),
        **number_fields("score", scores),
        **number_fields("box", boxes),
        **number_fields("made", op.outputs[0]),
    }
    arguments = (ELEMENT_TYPES[scores.dtype], _FALLS[attrs.whole("kernel")])
    numbers = _OF_CANDIDATE * (rows + _LANES) + _OF_CHOSEN * chosen
    _call(op, context, Kernel("box_limit.h", "box_limit", arguments), params, numbers)


def _lower_proposals(op: Op, context: Context) -> None:
    scores, deltas, anchors, sizes = (operand(op, index) for index in range(4))
    attrs, is_planes = attributes(op), attributes(op).whole("nchw")
    images, *shape = scores.static_shape
    count, height, width = shape if is_planes else (shape[2], *shape[:2])
    before, after = proposal_counts(op, scores.static_shape)
    params: dict[str, ParamValue] = {
        "images": images,
        "height": height,
        "width": width,
        "anchors": count,
        "before": before,
        "after": after,
        "right": float(attrs.real("width_stride")),
        "down": float(attrs.real("height_stride")),
        "overlap": float(attrs.real("iou_threshold")),
        "least": float(attrs.real("min_size")),
        **number_fields("score", scores),
        **number_fields("delta", deltas),
        **number_fields("anchor", anchors),
        **number_fields("image", sizes),
        **number_fields("made_score", op.outputs[0]),
        **number_fields("made_box", op.outputs[1]),
    }
    arguments = (ELEMENT_TYPES[scores.dtype], int(is_planes))
    numbers = _OF_PLACE * scores.elements // images + _COLUMNS * (after + _LANES)
    _call(op, context, Kernel("proposals.h", "proposals", arguments), params, numbers)


LOWERINGS.add(Lowering(LIMIT, "box_limit", _refuses, _lower_limit))
LOWERINGS.add(Lowering(PROPOSALS, "proposals", _refuses, _lower_proposals))
