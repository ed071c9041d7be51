"""CONV_3D and CONV_3D_TRANSPOSE by `conv_direct.h`, with weights of any kind."""

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
    TensorRef,
)
from circlet.ir import Op, Tensor
from circlet.ops.conv3d import pads_before, windows_of
from circlet.ops.geometry import Window
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.target.targets import Target


def _why_not(*tensors: Tensor) -> str | None:
    sized = all(tensor.elements and tensor.sparsity is None for tensor in tensors)
    return None if sized else "a size is 0, or weights are sparse"


def _refuses(op: Op, target: Target) -> str | None:
    return _why_not(operand(op, 0), operand(op, 1), op.outputs[0])


def _lower(op: Op, context: Context) -> None:
    windows, weights = windows_of(op), operand(op, 1)
    source, result = operand(op, 0).static_shape, op.outputs[0].static_shape
    _, rows, columns, depth, filters = weights.static_shape
    params: dict[str, ParamValue] = {
        "stride": [window.stride for window in windows],
        "dilation": [window.dilation for window in windows],
        "before": pads_before(op, source[1:4]),
        "up": (1, 1, 1),
        "w_tap": (rows * columns * depth * filters, columns * depth * filters, depth * filters),
        "w_in": filters,
        "w_out": 1,
    }
    operands = operand(op, 0), weights, op.input(2)
    _call(op, context, windows, params, operands, (source, result))


def _refuses_transposed(op: Op, target: Target) -> str | None:
    if not operand(op, 0).is_constant:
        return "the output shape must be constant"
    return _why_not(operand(op, 1), operand(op, 2), op.outputs[0])


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
    }
    params |= clamp_params(activation_of(op))
    refs = (
        source_ref(context, data),
        source_ref(context, weights),
        NoRef() if bias is None else source_ref(context, bias),
        TensorRef(op.outputs[0]),
    )
    kernel = Kernel("conv_direct.h", "conv_direct")
    context.call(op, kernel, params, refs, (op.outputs[0],), tasks=prod(result[:3]))


LOWERINGS.add(Lowering("CONV_3D", "conv_3d_direct", _refuses, _lower))
LOWERINGS.add(
    Lowering(
        "CONV_3D_TRANSPOSE", "conv_3d_transpose_direct", _refuses_transposed, _lower_transposed
    )
)
