"""Building blocks of quantised element-wise expressions and their parameter values."""

from __future__ import annotations

from circlet.ir import Op
from circlet.ops.expr import Call, Expr, Number, Param, call, clamp
from circlet.ops.operands import limits, zero_of
from circlet.ops.requantize import activation_of, activation_range, quantize_multiplier


def rescale_down(value: Expr, name: str) -> Call:
    """Times a fixed-point factor below 1: parameters `<name>_multiplier` and `<name>_right`."""
    product = call("srdhm", value, Param(f"{name}_multiplier"))
    return call("rdbpot", product, Param(f"{name}_right"))


def stored(value: Expr) -> Call:
    """A value on the output's scale as it is stored: zero point added, clamped."""
    return clamp(value + Param("zero_out"), Param("low"), Param("high"))


def multiplier_params(name: str, factor: float) -> dict[str, Number]:
    """Parameters of `expr.rescale` for a real factor."""
    mantissa, shift = quantize_multiplier(factor)
    return {
        f"{name}_multiplier": mantissa,
        f"{name}_left": max(shift, 0) % 32,  # as processors shift numbers of 32 bits
        f"{name}_right": max(-shift, 0),
    }


def down_params(name: str, factor: float) -> dict[str, Number]:
    """Parameters of `rescale_down` for a real factor below 1."""
    mantissa, shift = quantize_multiplier(factor)
    return {f"{name}_multiplier": mantissa, f"{name}_right": max(-shift, 0)}


def zero_params(op: Op) -> dict[str, Number]:
    """Zero points: `zero0`, `zero1`, ... of the inputs and `zero_out`."""
    zeros: dict[str, Number] = {
        f"zero{index}": zero_of(tensor)
        for index, tensor in enumerate(op.inputs)
        if tensor is not None
    }
    return {**zeros, "zero_out": zero_of(op.outputs[0])}


def activation_params(op: Op) -> dict[str, Number]:
    """Stored bounds `low` and `high` of the op's fused activation, or of the type."""
    name = activation_of(op)
    low, high = activation_range(name, op.outputs[0])
    return {"low": low, "high": high}


def type_params(op: Op) -> dict[str, Number]:
    """Stored bounds `low` and `high` of the output's type."""
    low, high = limits(op.outputs[0].dtype)
    return {"low": low, "high": high}
