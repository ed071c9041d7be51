"""Activations of straight pieces: the RELU family, LEAKY_RELU, PRELU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ops.elementwise import (
    BROADCASTS,
    broadcast_shape,
    element_cost,
    evaluate_scalar,
    unary,
)
from circlet.ops.expr import Param, Scalar, Var, call, rescale
from circlet.ops.fixed import multiplier_params, stored, type_params, zero_params
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, register
from circlet.ops.operands import (
    QUANTISED,
    affine,
    operand,
    present,
    same_as_first,
    same_dtypes,
    scale_of,
)
from circlet.ops.requantize import quantize_value

_LIMIT = float(1 << 30)
EIGHT_BIT_FORMS = "FLOAT32 INT8 UINT8"


@dataclass(frozen=True)
class LeakyReluAttrs:
    """Slope of the negative side."""

    alpha: float = 0.0


def is_quantised(op: Op) -> bool:
    """Whether the op computes on 8- or 16-bit stored values."""
    return operand(op, 0).dtype in QUANTISED


def alpha_factor(op: Op, alpha: float) -> float:
    """Real factor of the negative side: input scale times `alpha` over output scale, in float32."""
    with np.errstate(over="ignore", under="ignore"):
        slope = np.float32(scale_of(operand(op, 0))) * np.float32(alpha)
        return float(slope / np.float32(scale_of(op.outputs[0])))


def ratio(op: Op) -> float:
    """Input scale over output scale, formed in float32."""
    first, result = np.float32(scale_of(operand(op, 0))), np.float32(scale_of(op.outputs[0]))
    with np.errstate(over="ignore", under="ignore"):
        return float(first / result)


def clipped(low: float, high: float) -> Callable[[Op], Scalar]:
    """A clamp of real values; quantised ones are rescaled, then clamped."""

    def build(op: Op) -> Scalar:
        if is_quantised(op):
            return _clipped_stored(op, low, high)
        value = call("max", Var(0), low)
        return Scalar(value if high == inf else call("min", value, high))

    return build


def _clipped_stored(op: Op, low: float, high: float) -> Scalar:
    result, bounds = op.outputs[0], type_params(op)
    scale, zero = np.float32(scale_of(result)), int(zero_params(op)["zero_out"])
    bounds["low"] = max(bounds["low"], quantize_value(low, scale, zero))
    if high != inf:
        bounds["high"] = min(bounds["high"], quantize_value(high, scale, zero))
    params = {**zero_params(op), **multiplier_params("output", ratio(op)), **bounds}
    return Scalar(stored(rescale(Var(0, "i32") - Param("zero0"), "output")), params)


def in_reach(alpha: Callable[[Op], float] = lambda op: 0.0) -> Rule:
    """Rule: what the scales and `alpha` multiply stored values by is below 2**30."""

    def holds(op: Op) -> bool:
        if not is_quantised(op):
            return True
        value = alpha(op)
        return abs(value) < _LIMIT and max(ratio(op), abs(alpha_factor(op, value))) < _LIMIT

    return Rule("output-scale", holds, "the scales of input and output are too far apart")


for _kind, _low, _high, _types in (
    ("RELU", 0.0, inf, "FLOAT32 INT8 UINT8 INT16"),
    ("RELU6", 0.0, 6.0, "FLOAT32 INT8 UINT8 INT16"),
    ("RELU_N1_TO_1", -1.0, 1.0, EIGHT_BIT_FORMS),
    ("RELU_0_TO_1", 0.0, 1.0, EIGHT_BIT_FORMS),
):
    unary(
        _kind,
        clipped(_low, _high),
        _types,
        rules=(affine(0), in_reach()),
        numerics="exact",
        quant=QuantRule(same_as_input=True),
    )


def leaky(op: Op) -> Scalar:
    """LEAKY_RELU: each side has its own factor."""
    alpha = float(np.float32(op.attributes(LeakyReluAttrs).alpha))
    if not is_quantised(op):
        x = Var(0)
        return Scalar(call("select", x > 0.0, x, x * Param("alpha", "f32")), {"alpha": alpha})
    centred = Var(0, "i32") - Param("zero0")
    value = call("select", centred >= 0, rescale(centred, "identity"), rescale(centred, "alpha"))
    params = {
        **zero_params(op),
        **multiplier_params("identity", ratio(op)),
        **multiplier_params("alpha", alpha_factor(op, alpha)),
        **type_params(op),
    }
    return Scalar(stored(value), params)


unary(
    "LEAKY_RELU",
    leaky,
    "FLOAT32 INT8 UINT8 INT16",
    attrs=LeakyReluAttrs,
    rules=(affine(0), in_reach(lambda op: op.attributes(LeakyReluAttrs).alpha)),
    numerics="exact",
)


def parametric(op: Op) -> Scalar:
    """PRELU: the negative side is multiplied by the second operand."""
    if not is_quantised(op):
        x = Var(0)
        return Scalar(call("select", x >= 0.0, x, x * Var(1)))
    centred = Var(0, "i32") - Param("zero0")
    sloped = centred * (Var(1, "i32") - Param("zero1"))
    value = call("select", centred >= 0, rescale(centred, "identity"), rescale(sloped, "alpha"))
    params = {
        **zero_params(op),
        **multiplier_params("identity", ratio(op)),
        **multiplier_params("alpha", alpha_factor(op, scale_of(operand(op, 1)))),
        **type_params(op),
    }
    return Scalar(stored(value), params)


def _keeps_shape(op: Op) -> bool:
    source = operand(op, 0).shape
    return broadcast_shape(source, operand(op, 1).shape) == source or None in source


def _evaluate_prelu(op: Op, inputs: Arrays) -> list[np.ndarray]:
    result = evaluate_scalar(parametric(op), op, inputs)
    if result[0].shape != present(inputs[0]).shape:
        raise GraphError("the slopes are larger than the input", where=op.name)
    return result


register(
    OpDef(
        kind="PRELU",
        arity=(2, 2),
        required=2,
        dtypes=tuple(f"{name} {name} -> {name}" for name in EIGHT_BIT_FORMS.split()),
        infer=same_as_first,
        evaluate=_evaluate_prelu,
        rules=(
            same_dtypes(0, 1),
            BROADCASTS,
            Rule("slopes", _keeps_shape, "the slopes must spread over the input, not enlarge it"),
            affine(0, 1),
            in_reach(lambda op: scale_of(operand(op, 1))),
        ),
        cost=element_cost,
        scalar=parametric,
    )
)
