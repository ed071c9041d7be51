"""AXIS_ALIGNED_BBOX_TRANSFORM and HEATMAP_MAX_KEYPOINT of the Android Neural Networks API."""

from __future__ import annotations

from circlet.backends.cpu.lower.copy import not_copyable
from circlet.backends.cpu.lower.printer import ELEMENT_TYPES
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
from circlet.ir import Op, Tensor
from circlet.ops.nnapi.record import PREFIX, QUANTISED, attributes
from circlet.ops.operands import operand, scale_of, zero_of
from circlet.target.targets import Target


def number_fields(name: str, tensor: Tensor) -> dict[str, ParamValue]:
    """The fields of a `struct box_scale`."""
    if tensor.dtype not in QUANTISED:
        return {f"{name}_scale": 1.0, f"{name}_zero": 0}
    return {f"{name}_scale": scale_of(tensor), f"{name}_zero": zero_of(tensor)}


def refuses(op: Op, target: Target) -> str | None:
    """Why a kernel over boxes does not take an op."""
    tensors = [*(t for t in op.inputs if t is not None), *op.outputs]
    return next((reason for t in tensors if (reason := not_copyable(t))), None)


def _lower_transform(op: Op, context: Context) -> None:
    boxes, deltas, _, images = inputs = [operand(op, index) for index in range(4)]
    count, result = boxes.static_shape[0], op.outputs[0]
    params: dict[str, ParamValue] = {
        "count": count,
        "classes": deltas.static_shape[1] // 4,
        "images": images.static_shape[0],
        **number_fields("box", boxes),
        **number_fields("delta", deltas),
        **number_fields("image", images),
        **number_fields("result", result),
    }
    operands = (*(source_ref(context, each) for each in inputs), TensorRef(result), StopRef())
    kernel = Kernel("boxes.h", "bbox_transform", (ELEMENT_TYPES[deltas.dtype],))
    context.call(op, kernel, params, operands, (result,), tasks=count)


def _lower_keypoint(op: Op, context: Context) -> None:
    maps, boxes = operand(op, 0), operand(op, 1)
    count, *sizes = maps.static_shape
    size = sizes[1]
    if attributes(op).whole("nchw"):
        points, steps = sizes[0], (size, 1, size * size)
    else:
        points, steps = sizes[2], (size * sizes[2], sizes[2], 1)
    params: dict[str, ParamValue] = {
        "points": points,
        "size": size,
        "box": size * size * points,
        **dict(zip(("row", "column", "point"), steps, strict=True)),
        "tolerance": float(attributes(op).real("tolerance")),
        "unused": 0,
        **number_fields("map", maps),
        **number_fields("corner", boxes),
        **number_fields("height", op.outputs[0]),
        **number_fields("place", op.outputs[1]),
    }
    sources = (source_ref(context, maps), source_ref(context, boxes))
    operands = (*sources, *(TensorRef(tensor) for tensor in op.outputs), StopRef())
    kernel = Kernel("heatmap.h", "heatmap_max_keypoint", (ELEMENT_TYPES[maps.dtype],))
    context.call(op, kernel, params, operands, op.outputs, tasks=count)


for _kind, _name, _lower in (
    ("AXIS_ALIGNED_BBOX_TRANSFORM", "bbox_transform", _lower_transform),
    ("HEATMAP_MAX_KEYPOINT", "heatmap_max_keypoint", _lower_keypoint),
):
    LOWERINGS.add(Lowering(f"CUSTOM:{PREFIX}{_kind}", _name, refuses, _lower))
