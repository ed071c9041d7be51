"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR: positions and weights become constant tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.backends.cpu.lower.copy import element_bytes
from circlet.backends.cpu.lower.printer import ELEMENT_TYPES
from circlet.backends.cpu.lower.views import image_strides, layout_of, source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Context,
    Kernel,
    Lowering,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.operands import known_ints, operand
from circlet.ops.resize import fixed_samples, nearest_samples, real_samples
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    source, result = operand(op, 0), op.outputs[0]
    if known_ints(op.input(1)) is None:
        return "the size is not constant"
    if source.dtype not in (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16):
        return f"does not take {source.dtype.name}"
    return "a size is 0" if result.elements == 0 else None


def _lower_bilinear(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    data, made = layout_of(context, source), context.layout(result)
    is_fixed = source.dtype in (DType.INT8, DType.INT16)
    samples = fixed_samples if is_fixed else real_samples
    sizes = (data.height, made.height), (data.width, made.width)
    axes: list[Sequence[np.ndarray]] = [samples(op, *pair) for pair in sizes]
    in_sixteenths = source.dtype is DType.UINT8 and all(map(_in_sixteenths, axes))
    if in_sixteenths:
        axes = [_times_16(axis) for axis in axes]
    tables = [table for axis in axes for table in _tables(context, axis)]
    operands = (source_ref(context, source), TensorRef(result), *tables)
    arguments = (ELEMENT_TYPES[source.dtype], int(in_sixteenths))
    kernel = Kernel("resize.h", "resize_bilinear", arguments)
    params = {
        "channels": made.channels,
        "in_width": data.width,
        "out_height": made.height,
        "out_width": made.width,
        **image_strides("in", data),
        **image_strides("out", made),
    }
    image_rows = made.batch * made.height
    scratch = 2 * 4 * data.width * data.channels + context.vector_bytes
    context.call(op, kernel, params, operands, (result,), tasks=image_rows, scratch_bytes=scratch)


def _in_sixteenths(samples: Sequence[np.ndarray]) -> bool:
    """Whether all weights are multiples of 1/16, so that no order of products rounds."""
    weight = samples[2] * 16
    return bool((weight == np.rint(weight)).all())


def _times_16(samples: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    lower, upper, weight = samples
    return lower, upper, (weight * 16).astype(np.int32)


def _tables(context: Context, samples: Sequence[np.ndarray]) -> list[ConstantRef]:
    lower, upper, weight = samples
    weight_type = np.float32 if weight.dtype.kind == "f" else np.int32
    tables = (lower.astype(np.int32), upper.astype(np.int32), weight.astype(weight_type))
    return [context.constant(table) for table in tables]


def _lower_nearest(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    data, made, size = layout_of(context, source), context.layout(result), element_bytes(source)
    pairs = ((data.height, made.height), (data.width, made.width))
    rows, columns = (nearest_samples(op, *pair).astype(np.int32) for pair in pairs)
    tables = (context.constant(rows), context.constant(columns))
    operands = (source_ref(context, source), TensorRef(result), *tables)
    params = {
        "pixel_bytes": made.channels * size,
        "out_height": made.height,
        "out_width": made.width,
        "doubles": int(np.array_equal(columns, np.arange(made.width) // 2)),
        **image_strides("in", data, size),
        **image_strides("out", made, size),
    }
    kernel = Kernel("resize.h", "resize_nearest")
    tasks = made.batch * made.height
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


for _kind, _lower in (
    ("RESIZE_BILINEAR", _lower_bilinear),
    ("RESIZE_NEAREST_NEIGHBOR", _lower_nearest),
):
    LOWERINGS.add(
        Lowering(_kind, _kind.lower(), _refuses, _lower, strided_inputs=True, strided_output=True)
    )
