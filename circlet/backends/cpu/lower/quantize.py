"""QUANTIZE, DEQUANTIZE and CAST: tables between 8-bit types, expressions otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlet.backends.cpu.lower.body import ELEMENT_TYPES, not_printable
from circlet.backends.cpu.lower.copy import not_copyable
from circlet.backends.cpu.lower.elementwise import lower_scalar
from circlet.backends.cpu.lower.lut import lut_loops
from circlet.backends.cpu.lower.views import element_loops
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, TensorRef
from circlet.backends.cpu.targets import Target
from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops import get
from circlet.ops.expr import Const, Expr, Param, Scalar, Var, call, clamp, rescale
from circlet.ops.fixed import multiplier_params, stored, type_params, zero_params
from circlet.ops.lut import EIGHT_BIT
from circlet.ops.operands import limits, operand, scale_of, zero_of

_LARGEST_BELOW_2_31 = 2147483520.0
# Adding it and truncating rounds halves away from zero: 0.5 itself would move 0.49999997 up.
_BELOW_HALF = 0.49999997


def _not_nan(value: Expr) -> Expr:
    return call("select", value.equals(value), value, 0.0)


def quantize_scalar(op: Op) -> Scalar:
    """QUANTIZE of one element."""
    source, result = operand(op, 0), op.outputs[0]
    if source.dtype != DType.FLOAT32:
        value = rescale(Var(0, "i32") - Param("zero0"), "output")
        factor = multiplier_params("output", scale_of(source) / scale_of(result))
        return Scalar(stored(value), {**zero_params(op), **factor, **type_params(op)})
    scaled = _not_nan(Var(0) / Param("scale", "f32"))
    inside = clamp(scaled, Param("lowest", "f32"), Param("highest", "f32"))
    rounded = call("select", inside < 0.0, inside - _BELOW_HALF, inside + _BELOW_HALF)
    low, high = limits(result.dtype)
    zero = zero_of(result)
    params = {
        "scale": scale_of(result),
        "lowest": float(low - zero),
        "highest": float(high - zero),
        "zero": zero,
    }
    return Scalar(call("to_i32", rounded) + Param("zero"), params)


def dequantize_scalar(op: Op) -> Scalar:
    """DEQUANTIZE of one element; operands 1 and 2 are zero point and scale per channel."""
    source = operand(op, 0)
    if source.quant is not None and source.quant.is_per_channel:
        return Scalar(call("to_f32", Var(0, "i32") - Var(1, "i32")) * Var(2))
    real = call("to_f32", Var(0, "i32") - Param("zero")) * Param("scale", "f32")
    return Scalar(real, {"zero": zero_of(source), "scale": scale_of(source)})


def cast_scalar(op: Op) -> Scalar:
    """CAST of one element: floats truncate and saturate, integers keep their low bits."""
    source, result = operand(op, 0).dtype, op.outputs[0].dtype
    if source != DType.FLOAT32:
        value = Var(0, "i32")
        return Scalar(call("to_f32", value) if result == DType.FLOAT32 else value)
    if result == DType.FLOAT32:
        return Scalar(Var(0))
    low, high = limits(result)
    x = _not_nan(Var(0))
    inside = call("to_i32", clamp(x, float(low), min(float(high), _LARGEST_BELOW_2_31)))
    if result != DType.INT32:
        return Scalar(inside)
    return Scalar(call("select", x >= 2.0**31, Const(high, "i32"), inside))


def _channel_operands(source: Tensor) -> list[Tensor]:
    quant = source.quant
    if quant is None or not quant.is_per_channel:
        return []
    shape = [1] * len(source.static_shape)
    shape[quant.axis] = -1
    zero = quant.zero_point.astype(np.int32).reshape(shape)
    scale = quant.scale.astype(np.float32).reshape(shape)
    return [constant("zero points", zero), constant("scales", scale)]


def _refuses(op: Op, target: Target) -> str | None:
    types = {operand(op, 0).dtype, op.outputs[0].dtype}
    unknown = types - set(ELEMENT_TYPES)
    if unknown:
        return f"does not take {', '.join(sorted(dtype.name for dtype in unknown))}"
    return not_copyable(op.outputs[0]) or not_printable(_SCALARS[op.kind](op))


def _lower(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    if source.dtype in EIGHT_BIT and result.dtype in EIGHT_BIT:
        _lower_table(op, context)
        return
    extra = _channel_operands(source) if op.kind == "DEQUANTIZE" else []
    lower_scalar(op, context, _SCALARS[op.kind](op), [source, *extra])


def _lower_table(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    values = np.arange(256, dtype=np.uint8).view(source.dtype.numpy)
    table = get(op).evaluate(op, [values])[0]
    loops = element_loops(context, (source, result), result.static_shape)
    lut_loops(op, context, source, table, TensorRef(result), loops)


_SCALARS: dict[str, Callable[[Op], Scalar]] = {
    "QUANTIZE": quantize_scalar,
    "DEQUANTIZE": dequantize_scalar,
    "CAST": cast_scalar,
}

for _kind in _SCALARS:
    LOWERINGS.add(
        Lowering(_kind, _kind.lower(), _refuses, _lower, strided_inputs=True, strided_output=True)
    )
