"""Activations: the RELU family, LEAKY_RELU, PRELU, ELU, LOGISTIC, TANH, HARD_SWISH, GELU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, pi, sqrt

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops import hard_swish, lut
from circlet.ops.elementwise import (
    BROADCASTS,
    broadcast_shape,
    element_cost,
    evaluate_scalar,
    unary,
)
from circlet.ops.expr import Expr, Param, Scalar, Var, call, clamp, rescale
from circlet.ops.expr import evaluate as evaluate_expression
from circlet.ops.fixed import multiplier_params, stored, type_params, zero_params
from circlet.ops.operands import (
    QUANTISED,
    affine,
    operand,
    present,
    same_as_first,
    same_dtypes,
    scale_of,
)
from circlet.ops.record import Arrays, NoAttrs, OpDef, QuantRule, Rule, register
from circlet.ops.requantize import quantize_value

_LIMIT = float(1 << 30)
_EIGHT_BIT = "FLOAT32 INT8 UINT8"


@dataclass(frozen=True)
class LeakyReluAttrs:
    """Slope of the negative side."""

    alpha: float = 0.0


@dataclass(frozen=True)
class GeluAttrs:
    """Whether the tanh form replaces the error function."""

    approximate: bool = False


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
    ("RELU_N1_TO_1", -1.0, 1.0, _EIGHT_BIT),
    ("RELU_0_TO_1", 0.0, 1.0, _EIGHT_BIT),
):
    unary(
        _kind,
        clipped(_low, _high),
        _types,
        rules=(affine(0), in_reach()),
        numerics="exact",
        rounding="double",
        quant=QuantRule(same_as_input=True),
    )


def leaky(op: Op) -> Scalar:
    """LEAKY_RELU: each side has its own factor."""
    alpha = float(np.float32(getattr(op.attrs, "alpha", 0.0)))
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
    options="LeakyReluOptions",
    rules=(affine(0), in_reach(lambda op: float(getattr(op.attrs, "alpha", 0.0)))),
    numerics="exact",
    rounding="double",
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
        dtypes=tuple(f"{name} {name} -> {name}" for name in _EIGHT_BIT.split()),
        infer=same_as_first,
        evaluate=_evaluate_prelu,
        rules=(
            same_dtypes(0, 1),
            BROADCASTS,
            Rule("slopes", _keeps_shape, "the slopes must spread over the input, not enlarge it"),
            affine(0, 1),
            in_reach(lambda op: scale_of(operand(op, 1))),
        ),
        accumulator="int32",
        rounding="double",
        cost=element_cost,
        scalar=parametric,
    )
)


def _of_floats(op: Op, expression: Expr) -> Scalar:
    """A scalar of floats; GraphError for stored values, which only a table maps exactly."""
    if is_quantised(op):
        raise GraphError(
            f"{op.kind} of stored values has no expression", where=op.name, fix="use lut.table_of"
        )
    return Scalar(expression)


def _transcendental(
    kind: str,
    types: str,
    expression: Callable[[Op], Expr],
    transform: Callable[[Op], lut.Transform],
    rules: tuple[Rule, ...] = (),
    fixed: tuple[tuple[DType, float, int], ...] = (),
    attrs: type = NoAttrs,
    options: str = "",
) -> None:
    """Register a smooth function: an expression on floats, a table on 8-bit values."""

    def scalar(op: Op) -> Scalar:
        return _of_floats(op, expression(op))

    def evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
        if not is_quantised(op):
            return evaluate_scalar(scalar(op), op, inputs)
        table = lut.tabulated(operand(op, 0), op.outputs[0], transform(op))
        return [lut.apply(table, present(inputs[0]))]

    unary(
        kind,
        scalar,
        types,
        attrs=attrs,
        options=options,
        rules=(affine(0), *rules),
        rounding="lut",
        quant=QuantRule(fixed=fixed),
        evaluate=evaluate,
    )


def _in_double(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Op], lut.Transform]:
    """A transform rounded to float32 from a double result, as a good float libm gives."""

    def transform(values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.asarray(function(values.astype(np.float64)), np.float32)

    return lambda op: transform


def _logistic_steps(values: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) with every step rounded to float32."""
    with np.errstate(over="ignore"):
        power = np.exp(-values.astype(np.float64)).astype(np.float32)
    return np.asarray(np.float32(1) / (np.float32(1) + power), np.float32)


def _scale_is(scale: float) -> Callable[[Op], bool]:
    def holds(op: Op) -> bool:
        return not is_quantised(op) or scale_of(op.outputs[0]) == scale

    return holds


_transcendental(
    "LOGISTIC",
    _EIGHT_BIT,
    lambda op: call("logistic", Var(0)),
    lambda op: _logistic_steps,
    rules=(Rule("output-scale", _scale_is(1 / 256), "the output scale must be 1/256"),),
    fixed=((DType.INT8, 1 / 256, -128), (DType.UINT8, 1 / 256, 0)),
)
_transcendental(
    "TANH",
    _EIGHT_BIT,
    lambda op: call("tanh", Var(0)),
    _in_double(np.tanh),
    fixed=((DType.INT8, 1 / 128, 0), (DType.UINT8, 1 / 128, 128)),
)
_transcendental(
    "ELU",
    "FLOAT32 INT8",
    lambda op: call("select", Var(0) < 0.0, call("expm1", Var(0)), Var(0)),
    _in_double(lambda x: np.where(x < 0, np.expm1(x), x)),
)


def gelu(op: Op) -> Expr:
    """GELU by the error function, or by tanh where the op asks for it."""
    x = Var(0)
    if not getattr(op.attrs, "approximate", False):
        return x * 0.5 * (call("erf", x * sqrt(0.5)) + 1.0)
    inner = (x + x * x * x * 0.044715) * sqrt(2 / pi)
    return x * 0.5 * (call("tanh", inner) + 1.0)


def _gelu_table(op: Op) -> lut.Transform:
    return lambda values: np.asarray(evaluate_expression(gelu(op), [values], {}), np.float32)


_transcendental("GELU", _EIGHT_BIT, gelu, _gelu_table, attrs=GeluAttrs, options="GeluOptions")


def hard_swish_scalar(op: Op) -> Scalar:
    """HARD_SWISH on floats; 8-bit values go through 16-bit fixed point, hence a table."""
    x = Var(0)
    return _of_floats(op, x * clamp(x + 3.0, 0.0, 6.0) / 6.0)


def _evaluate_hard_swish(op: Op, inputs: Arrays) -> list[np.ndarray]:
    if not is_quantised(op):
        return evaluate_scalar(hard_swish_scalar(op), op, inputs)
    return [hard_swish.evaluate(present(inputs[0]), operand(op, 0), op.outputs[0])]


def _output_not_finer(op: Op) -> bool:
    return not is_quantised(op) or hard_swish.output_shift(operand(op, 0), op.outputs[0]) <= 0


unary(
    "HARD_SWISH",
    hard_swish_scalar,
    _EIGHT_BIT,
    options="HardSwishOptions",
    rules=(
        affine(0),
        in_reach(),
        Rule("output-scale", _output_not_finer, "the output scale is too small"),
    ),
    rounding="lut",
    evaluate=_evaluate_hard_swish,
)
