"""The scalar expressions of changes of number form and choices, and of any element-wise op."""

from __future__ import annotations

from collections.abc import Callable

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.elementwise import kind_of
from circlet.ops.expr import KINDS, Const, Expr, Param, Scalar, Var, call, clamp, rescale
from circlet.ops.fixed import multiplier_params, stored, type_params, zero_params
from circlet.ops.opdef import find
from circlet.ops.operands import limits, operand, scale_of, zero_of

_LARGEST_BELOW_2_31 = 2147483520.0


def _not_nan(value: Expr) -> Expr:
    return call("select", value.equals(value), value, 0.0)


def quantize_scalar(op: Op) -> Scalar:
    """QUANTIZE of one element."""
    source, result = operand(op, 0), op.outputs[0]
    if source.dtype != DType.FLOAT32:
        value = rescale(Var(0, "i32") - Param("zero0"), "output")
        factor = multiplier_params("output", scale_of(source) / scale_of(result))
        return Scalar(stored(value), {**zero_params(op), **factor, **type_params(op)})
    low, high = limits(result.dtype)
    zero = zero_of(result)
    params = {
        "scale": scale_of(result),
        "lowest": float(low - zero),
        "highest": float(high - zero),
        "zero": zero,
    }
    bounds = (Param("lowest", "f32"), Param("highest", "f32"))
    whole = call("nearest_ratio", Var(0), Param("scale", "f32"), *bounds)
    return Scalar(whole + Param("zero"), params)


def dequantize_scalar(op: Op) -> Scalar:
    """DEQUANTIZE of one element; operands 1 and 2 are zero point and scale per channel."""
    source = operand(op, 0)
    if source.quant is not None and source.quant.is_per_channel:
        return Scalar(call("to_f32", Var(0, "i32") - Var(1, "i32")) * Var(2))
    real = call("to_f32", Var(0, "i32") - Param("zero")) * Param("scale", "f32")
    return Scalar(real, {"zero": zero_of(source), "scale": scale_of(source)})


def _cast_whole(source: DType, result: DType) -> Expr:
    value = Var(0, "i64") if source == DType.INT64 else Var(0, "i32")
    if result.is_float:
        return call(f"to_{KINDS[result]}", value)
    if (source == DType.INT64) == (result == DType.INT64):
        return value
    return call("low_i32" if source == DType.INT64 else "to_i64", value)


def cast_scalar(op: Op) -> Scalar:
    """CAST of one element: floats truncate and saturate, integers keep their low bits.

    GraphError for floats of 16 bits, and of 64 as whole numbers, which no expression computes.
    """
    source, result = operand(op, 0).dtype, op.outputs[0].dtype
    narrowed = source is DType.FLOAT64 and not (result.is_float or result is DType.BOOL)
    if narrowed or any(dtype.is_float and dtype not in KINDS for dtype in (source, result)):
        raise GraphError(f"no expression casts {source.name} to {result.name}", where=op.name)
    if result == DType.BOOL:
        return Scalar(Var(0, kind_of(op)).differs(0))
    if source.is_float and result.is_float:
        value = Var(0, kind_of(op))
        return Scalar(value if source is result else call(f"to_{KINDS[result]}", value))
    if source != DType.FLOAT32:
        return Scalar(_cast_whole(source, result))
    if result == DType.INT64:
        return Scalar(call("to_i64", Var(0)))
    low, high = limits(result)
    x = _not_nan(Var(0))
    inside = call("to_i32", clamp(x, float(low), min(float(high), _LARGEST_BELOW_2_31)))
    if result != DType.INT32:
        return Scalar(inside)
    return Scalar(call("select", x >= 2.0**31, Const(high, "i32"), inside))


FORM_SCALARS: dict[str, Callable[[Op], Scalar]] = {
    "QUANTIZE": quantize_scalar,
    "DEQUANTIZE": dequantize_scalar,
    "CAST": cast_scalar,
}


def choice_scalar(op: Op) -> Scalar:
    """SELECT_V2 of one element of floats or whole numbers."""
    kind = KINDS.get(operand(op, 1).dtype, "i32")
    return Scalar(call("select", Var(0, "i32").differs(0), Var(1, kind), Var(2, kind)))


_SCALARS = {**FORM_SCALARS, "SELECT_V2": choice_scalar}


def element_scalar(op: Op) -> Scalar | None:
    """One output element of an op as an expression, or None for ops that are not element-wise."""
    record = find(op.label)
    build = _SCALARS.get(op.kind) or (record.scalar if record is not None else None)
    if build is None:
        return None
    try:
        return build(op)
    except GraphError:  # An 8-bit form that only a table computes, or floats of 16 bits.
        return None
