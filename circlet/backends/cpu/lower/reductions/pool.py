"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from circlet.backends.cpu.lower.printer import ELEMENT_TYPES
from circlet.backends.cpu.lower.views import image_strides, source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    StopRef,
    TensorRef,
)
from circlet.backends.cpu.pixel_lanes import (
    has_pixel_lanes,
    phase_elements,
    reads_image,
    ring_rows,
    scratch_bytes,
)
from circlet.ir import DType, Op
from circlet.ops.operands import operand
from circlet.ops.pool import Pool2DAttrs, pool_window_of
from circlet.ops.requantize import FLOAT_ACTIVATION_RANGES, activation_of, activation_range
from circlet.target.targets import Target

_TAP_LIMIT = 1 << 15  # sums of as many int16 fit int32
_MOST_TAPS, _LONGEST_LINE = 64, 1 << 16  # of windows whose rows come first
_KINDS = {
    "AVERAGE_POOL_2D": "POOL_AVERAGE",
    "MAX_POOL_2D": "POOL_MAX",
    "L2_POOL_2D": "POOL_L2",
}


def _refuses(op: Op, target: Target) -> str | None:
    source, attrs = operand(op, 0), op.attributes(Pool2DAttrs)
    if source.dtype not in (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16):
        return f"does not take {source.dtype.name}"
    if source.is_constant:
        return "the input is constant"
    height, width = source.static_shape[1:3]
    rows, columns = attrs.kernel_shape
    if min(rows, height) * min(columns, width) > _TAP_LIMIT:
        return f"a window holds more than {_TAP_LIMIT} pixels"
    return None


def _lower(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    params = {**_geometry(op, context), **_activation(op)}
    if has_pixel_lanes(op) and _is_dense(op, context):
        _pool_pixels(op, context, params)
        return
    few = _is_of_few_channels(op, context)
    kernel = Kernel("pool.h", "pool", (_KINDS[op.kind], ELEMENT_TYPES[source.dtype], int(few)))
    operands = (source_ref(context, source), TensorRef(result), StopRef())
    layout = context.layout(result)
    line = prod(source.static_shape[2:]) * source.dtype.bits // 8 + context.vector_bytes
    context.call(
        op,
        kernel,
        params,
        operands,
        (result,),
        tasks=layout.batch * layout.height,
        scratch_bytes=line if few else 0,
    )


def _is_dense(op: Op, context: Context) -> bool:
    layouts = context.layout(operand(op, 0)), context.layout(op.outputs[0])
    return all(layout.pixel_stride == layout.channels for layout in layouts)


def _pool_pixels(op: Op, context: Context, params: Mapping[str, ParamValue]) -> None:
    source, result, window = operand(op, 0), op.outputs[0], pool_window_of(op)
    taps, steps = zip(window.rows[:2], window.columns[:2], strict=True)
    constants = (_KINDS[op.kind], *taps, *steps, int(not reads_image(op)))
    fields: dict[str, ParamValue] = {f"of_{name}": value for name, value in params.items()}
    layout = context.layout(result)
    context.call(
        op,
        Kernel("pool_pixels.h", "pool_pixels", constants),
        fields | {"phase": phase_elements(op), "ring": ring_rows(op)},
        (source_ref(context, source), TensorRef(result), StopRef()),
        (result,),
        tasks=layout.batch * layout.height,
        scratch_bytes=scratch_bytes(op),
    )


def _is_of_few_channels(op: Op, context: Context) -> bool:
    """Whether `pool_few.h` computes maxima: pixels are dense, and of less than two registers."""
    source, attrs = operand(op, 0), op.attributes(Pool2DAttrs)
    if op.kind != "MAX_POOL_2D" or source.dtype == DType.INT16:
        return False
    data = context.layout(source)
    channels, lanes = data.channels, context.vector_bytes * 8 // source.dtype.bits
    if channels >= 2 * lanes or not lanes <= data.width * channels <= _LONGEST_LINE:
        return False
    if prod(attrs.kernel_shape) > _MOST_TAPS:
        return False
    return _is_dense(op, context)


def _geometry(op: Op, context: Context) -> dict[str, ParamValue]:
    data, result = context.layout(operand(op, 0)), context.layout(op.outputs[0])
    window = pool_window_of(op)
    (top, _), (left, _) = window.pads(data.height, data.width)
    return {
        "in_height": data.height,
        "in_width": data.width,
        "channels": data.channels,
        "out_height": result.height,
        "out_width": result.width,
        "window_height": window.rows.size,
        "window_width": window.columns.size,
        "stride_height": window.rows.stride,
        "stride_width": window.columns.stride,
        "pad_top": top,
        "pad_left": left,
        **image_strides("in", data),
        **image_strides("out", result),
    }


def _activation(op: Op) -> dict[str, ParamValue]:
    activation = activation_of(op)
    if op.outputs[0].dtype.is_float:
        low, high = FLOAT_ACTIVATION_RANGES[activation]
        return {"low_int": 0, "high_int": 0, "low": low, "high": high}
    low_int, high_int = activation_range(activation, op.outputs[0])
    return {"low_int": low_int, "high_int": high_int, "low": 0.0, "high": 0.0}


for _kind in _KINDS:
    LOWERINGS.add(
        Lowering(
            _kind,
            f"{_kind.lower()}_window",
            _refuses,
            _lower,
            strided_inputs=True,
            strided_output=True,
        )
    )
