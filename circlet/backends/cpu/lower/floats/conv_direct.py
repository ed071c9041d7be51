"""CONV_3D and CONV_3D_TRANSPOSE, and float kinds whose weights are computed at run time."""

from __future__ import annotations

from math import prod

from circlet.backends.cpu.lower.floats.epilogue import clamp_params
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    TensorRef,
)
from circlet.ir import DType, Op, Tensor
from circlet.ops.conv import window_of
from circlet.ops.conv3d import pads_before, windows_of
from circlet.ops.geometry import Window
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.target.targets import Target

_POINT = Window(1)


def _refuses(op: Op, target: Target) -> str | None:
    tensors = [operand(op, 0), operand(op, 1), op.outputs[0]]
    if {tensor.dtype for tensor in tensors} != {DType.FLOAT32}:
        return "not float32"
    if any(tensor.elements == 0 or tensor.sparsity is not None for tensor in tensors):
        return "a size is 0, or weights are sparse"
    if op.kind == "CONV_2D" and tensors[0].static_shape[3] != tensors[1].static_shape[3]:
        return "grouped"
    return None


def _geometry(op: Op) -> tuple[tuple[Window, ...], tuple[int, ...]]:
    """Windows along depth, height and width, and the padding ahead of each."""
    sizes = operand(op, 0).static_shape
    if op.kind == "CONV_3D":
        return windows_of(op), pads_before(op, sizes[1:4])
    if op.kind == "FULLY_CONNECTED":
        return (_POINT,) * 3, (0, 0, 0)
    window = window_of(op)
    (top, _), (left, _) = window.pads(*sizes[1:3])
    return (_POINT, window.rows, window.columns), (0, top, left)


def _volumes(op: Op) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of input and output as [batch, depth, height, width, channels]."""
    source, result = operand(op, 0).static_shape, op.outputs[0].static_shape
    if op.kind == "CONV_3D":
        return source, result
    if op.kind == "FULLY_CONNECTED":
        units, depth = operand(op, 1).static_shape
        rows = prod(source) // depth
        return (1, 1, rows, 1, depth), (1, 1, rows, 1, units)
    return (source[0], 1, *source[1:]), (result[0], 1, *result[1:])


def _weight_steps(op: Op) -> dict[str, ParamValue]:
    """Weights between taps, input channels and output channels."""
    shape = operand(op, 1).static_shape
    if op.kind == "CONV_3D":
        _, rows, columns, depth, filters = shape
        steps = (rows * columns * depth * filters, columns * depth * filters, depth * filters)
        return {"w_tap": steps, "w_in": filters, "w_out": 1}
    if op.kind == "FULLY_CONNECTED":
        return {"w_tap": (0, 0, 0), "w_in": 1, "w_out": shape[1]}
    _, rows, columns, depth = shape
    taps: tuple[int, ...] = (0, columns * depth, depth)
    return {"w_tap": taps, "w_in": 1, "w_out": rows * columns * depth}


def _lower(op: Op, context: Context) -> None:
    windows, before = _geometry(op)
    params: dict[str, ParamValue] = {
        "stride": [window.stride for window in windows],
        "dilation": [window.dilation for window in windows],
        "before": before,
        "up": (1, 1, 1),
        **_weight_steps(op),
    }
    operands = operand(op, 0), operand(op, 1), op.input(2)
    _call(op, context, windows, params, operands, _volumes(op))


def _refuses_transposed(op: Op, target: Target) -> str | None:
    tensors = [operand(op, 1), operand(op, 2), op.outputs[0]]
    if any(tensor.elements == 0 or tensor.sparsity is not None for tensor in tensors):
        return "a size is 0, or weights are sparse"
    return None if operand(op, 0).is_constant else "the output shape must be constant"


def _lower_transposed(op: Op, context: Context) -> None:
    """Outputs meet inputs where they are whole steps of the stride apart."""
    windows, weights = windows_of(op), operand(op, 1)
    source, result = operand(op, 2).static_shape, op.outputs[0].static_shape
    _, rows, columns, filters, depth = weights.static_shape
    params: dict[str, ParamValue] = {
        "stride": (1, 1, 1),
        "dilation": [-window.dilation for window in windows],
        "before": [-count for count in pads_before(op, result[1:4])],
        "up": [window.stride for window in windows],
        "w_tap": [columns * rows * filters * depth, columns * filters * depth, filters * depth],
        "w_in": 1,
        "w_out": depth,
    }
    operands = operand(op, 2), weights, op.input(3)
    _call(op, context, windows, params, operands, (source, result))


def _call(
    op: Op,
    context: Context,
    windows: tuple[Window, ...],
    params: dict[str, ParamValue],
    operands: tuple[Tensor, Tensor, Tensor | None],
    volumes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    (data, weights, bias), (source, result) = operands, volumes
    columns, depth = result[4], source[4]
    params |= {
        "in_size": source[1:4],
        "out_size": result[1:4],
        "window": [window.size for window in windows],
        "in_step": [prod(source[axis + 1 :]) for axis in (1, 2, 3)],
        "in_batch": prod(source[1:]),
        "depth": depth,
        "columns": columns,
        "multiplier": max(1, columns // depth),
    }
    params |= clamp_params(activation_of(op))
    refs = (
        source_ref(context, data),
        source_ref(context, weights),
        NoRef() if bias is None else source_ref(context, bias),
        TensorRef(op.outputs[0]),
    )
    kernel = Kernel("conv_direct.h", "conv_direct", (int(op.kind == "DEPTHWISE_CONV_2D"),))
    context.call(op, kernel, params, refs, (op.outputs[0],), tasks=prod(result[:3]))


for _kind in ("CONV_3D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
    LOWERINGS.add(Lowering(_kind, f"{_kind.lower()}_direct", _refuses, _lower, rank=Rank.DIRECT))
LOWERINGS.add(
    Lowering(
        "CONV_3D_TRANSPOSE", "conv_3d_transpose_direct", _refuses_transposed, _lower_transposed
    )
)
