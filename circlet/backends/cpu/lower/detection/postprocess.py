"""TFLite_Detection_PostProcess as one kernel call."""

from __future__ import annotations

from circlet.backends.cpu.lower.copy import not_copyable
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    StopRef,
    TensorRef,
)
from circlet.ir import DType, Op, Tensor
from circlet.ops.detection import KIND, DetectionAttrs, classes_per_box
from circlet.ops.operands import operand, scale_of, zero_of
from circlet.target.targets import Target

# DETECTION_BOX_BYTES and so on of detection_postprocess.h.
_BOX_BYTES, _CLASS_BYTES, _MORE_BYTES = 56, 16, 4096


def _refuses(op: Op, target: Target) -> str | None:
    tensors = [*(operand(op, index) for index in range(3)), *op.outputs]
    return next((reason for t in tensors if (reason := not_copyable(t))), None)


def _stored(op: Op) -> bool:
    return operand(op, 0).dtype is DType.UINT8


def _quantisation(tensor: Tensor) -> tuple[float, int]:
    return (scale_of(tensor), zero_of(tensor)) if tensor.dtype is DType.UINT8 else (1.0, 0)


def _lower(op: Op, context: Context) -> None:
    codes, scores, anchors = (operand(op, index) for index in range(3))
    attrs, boxes = op.attributes(DetectionAttrs), codes.static_shape[1]
    quant = [_quantisation(tensor) for tensor in (codes, scores, anchors)]
    params: dict[str, ParamValue] = {
        "boxes": boxes,
        "code_columns": codes.static_shape[2],
        "score_columns": scores.static_shape[2],
        "classes": attrs.num_classes,
        "detections": attrs.max_detections,
        "per_box": classes_per_box(attrs),
        "per_class": attrs.detections_per_class,
        "results": attrs.max_detections * attrs.max_classes_per_detection,
        "box_scales": [attrs.y_scale, attrs.x_scale, attrs.h_scale, attrs.w_scale],
        "code_scale": quant[0][0],
        "code_zero": quant[0][1],
        "score_scale": quant[1][0],
        "score_zero": quant[1][1],
        "anchor_scale": quant[2][0],
        "anchor_zero": quant[2][1],
        "score_threshold": attrs.nms_score_threshold,
        "overlap_threshold": attrs.nms_iou_threshold,
    }
    sources = (source_ref(context, tensor) for tensor in (codes, scores, anchors))
    operands = (*sources, *(TensorRef(tensor) for tensor in op.outputs), StopRef())
    flags = (int(_stored(op)), int(attrs.use_regular_nms))
    kernel = Kernel("detection_postprocess.h", "detection_postprocess", flags)
    scratch = boxes * _BOX_BYTES + attrs.num_classes * _CLASS_BYTES + _MORE_BYTES
    context.call(op, kernel, params, operands, op.outputs, scratch_bytes=scratch)


LOWERINGS.add(Lowering(KIND, "detection_postprocess", _refuses, _lower))
