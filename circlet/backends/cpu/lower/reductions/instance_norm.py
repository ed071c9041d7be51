"""INSTANCE_NORM of images: moments of parts, then factors of channels, then every pixel."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops.circle_norm import InstanceNormAttrs
from circlet.ops.operands import operand
from circlet.ops.requantize import FLOAT_ACTIVATION_RANGES
from circlet.target.targets import Target

_IMAGE_RANK = 4
_PART_ELEMENTS = 1 << 13  # of an image, which a core's first cache holds
_FLOAT_BYTES = 4


def _refuses(op: Op, target: Target) -> str | None:
    source = operand(op, 0)
    if len(source.shape) != _IMAGE_RANK:
        return "its input is no image [n, h, w, channels]"
    if any(operand(op, index).data is None for index in (1, 2)):
        return "its scales or offsets are computed"
    return None


def _lower(op: Op, context: Context) -> None:
    source, result, attrs = operand(op, 0), op.outputs[0], op.attributes(InstanceNormAttrs)
    images, height, width, channels = source.static_shape
    pixels = height * width
    part = max(1, min(pixels, _PART_ELEMENTS // max(channels, 1)))
    parts = -(-pixels // part)
    image: dict[str, ParamValue] = {
        "in_pixels": pixels,
        "in_channels": channels,
        "in_parts": parts,
        "in_part": part,
    }
    low, high = (float(limit) for limit in FLOAT_ACTIVATION_RANGES[attrs.activation])
    gamma, beta = (_of_channels(op, index, channels, context) for index in (1, 2))
    moments = context.temporary(op, images * parts * 2 * channels * _FLOAT_BYTES)
    factors = context.temporary(op, images * 2 * channels * _FLOAT_BYTES)
    data, tasks = source_ref(context, source), images * parts
    first, second, last = (
        Kernel("instance_norm.h", f"instance_{name}") for name in ("moments", "factors", "norm")
    )
    context.call(op, first, image, (data, moments), (moments.tensor,), tasks=tasks)
    params = {**image, "epsilon": float(np.float32(attrs.epsilon))}
    context.call(op, second, params, (moments, gamma, factors), (factors.tensor,), tasks=images)
    params = {**image, "low": low, "high": high}
    operands = (data, factors, beta, TensorRef(result))
    context.call(op, last, params, operands, (result,), tasks=tasks)


def _of_channels(op: Op, index: int, channels: int, context: Context) -> ConstantRef:
    data = operand(op, index).data
    assert data is not None
    return context.constant(np.ascontiguousarray(np.broadcast_to(data.reshape(-1), channels)))


LOWERINGS.add(Lowering("INSTANCE_NORM", "instance_norm", _refuses, _lower))
