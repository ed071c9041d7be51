"""Smooth functions: LOGISTIC, TANH, ELU, GELU, HARD_SWISH, EXP, LOG; tables of stored values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops import hard_swish, lut, lut16, sigmoid16
from circlet.ops.activation import EIGHT_BIT_FORMS, in_reach, is_quantised
from circlet.ops.elementwise import evaluate_scalar, unary
from circlet.ops.expr import Expr, Scalar, Var, call, clamp
from circlet.ops.expr import evaluate as evaluate_expression
from circlet.ops.opdef import Arrays, NoAttrs, QuantRule, Rule
from circlet.ops.operands import affine, limits, operand, present, scale_of, zero_of
from circlet.ops.weighted import centred_int16


@dataclass(frozen=True)
class GeluAttrs:
    """Whether the tanh form replaces the error function."""

    approximate: bool = False


OnStored = Callable[[Op, np.ndarray], np.ndarray]

WIDE_FORMS = f"{EIGHT_BIT_FORMS} INT16"


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
    on_int16: OnStored | None = None,
) -> None:
    """Register a smooth function: an expression on floats, a table on stored values.

    `on_int16` replaces the table of straight pieces.
    """

    def scalar(op: Op) -> Scalar:
        return _of_floats(op, expression(op))

    def evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
        if not is_quantised(op):
            return evaluate_scalar(scalar(op), op, inputs)
        values, source, result = present(inputs[0]), operand(op, 0), op.outputs[0]
        if source.dtype != DType.INT16:
            return [lut.apply(lut.tabulated(source, result, transform(op)), values)]
        if on_int16 is not None:
            return [on_int16(op, values)]
        return [lut16.apply(lut16.tabulated(source, result, transform(op)), values)]

    unary(
        kind,
        scalar,
        types,
        attrs=attrs,
        rules=(affine(0), *rules),
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


_LOGISTIC_FIXED = (
    (DType.INT8, 1 / 256, -128),
    (DType.UINT8, 1 / 256, 0),
    (DType.INT16, 1 / (1 << 15), 0),
)


def _logistic_output(op: Op) -> bool:
    """The scale that the kernels assume."""
    scales = {dtype: scale for dtype, scale, _ in _LOGISTIC_FIXED}
    return not is_quantised(op) or scale_of(op.outputs[0]) == scales[op.outputs[0].dtype]


def _is_int16(op: Op) -> bool:
    return operand(op, 0).dtype == DType.INT16


def _tanh_output(op: Op) -> bool:
    return not _is_int16(op) or scale_of(op.outputs[0]) == 1 / (1 << 15)


_INT16_RULES = (
    centred_int16(),
    Rule(
        "input-scale",
        lambda op: not _is_int16(op) or sigmoid16.is_in_reach(op),
        "the input scale is too large",
    ),
)

_transcendental(
    "LOGISTIC",
    WIDE_FORMS,
    lambda op: call("logistic", Var(0)),
    lambda op: _logistic_steps,
    rules=(
        Rule(
            "output-scale",
            _logistic_output,
            "the output scale must be 1/256, of int16 values 1/32768",
        ),
        *_INT16_RULES,
    ),
    fixed=_LOGISTIC_FIXED,
    on_int16=sigmoid16.logistic,
)
_transcendental(
    "TANH",
    WIDE_FORMS,
    lambda op: call("tanh", Var(0)),
    _in_double(np.tanh),
    rules=(
        Rule("output-scale", _tanh_output, "the output scale of int16 values must be 1/32768"),
        *_INT16_RULES,
    ),
    fixed=(
        (DType.INT8, 1 / 128, 0),
        (DType.UINT8, 1 / 128, 128),
        (DType.INT16, 1 / (1 << 15), 0),
    ),
    on_int16=sigmoid16.tanh,
)
_transcendental(
    "ELU",
    "FLOAT32 INT8",
    lambda op: call("select", Var(0) < 0.0, call("expm1", Var(0)), Var(0)),
    _in_double(lambda x: np.where(x < 0, np.expm1(x), x)),
)


def gelu(op: Op) -> Expr:
    """GELU by the error function, or by tanh where the op asks for it.

    1 + tanh(u) is 2 / (1 + e^(-2 u)): the logistic function takes fewer operations, and loses
    nothing to cancellation where results are small.
    """
    x = Var(0)
    if not op.attributes(GeluAttrs).approximate:
        return x * 0.5 * (call("erf", x * sqrt(0.5)) + 1.0)
    twice = sqrt(8 / pi)
    return x * call("logistic", x * (x * x * (0.044715 * twice) + twice))


def _stored_gelu(op: Op) -> Expr:
    """The same as LiteRT makes its tables of, to the last bit."""
    if not op.attributes(GeluAttrs).approximate:
        return gelu(op)
    x = Var(0)
    inner = (x + x * x * x * 0.044715) * sqrt(2 / pi)
    return x * 0.5 * (call("tanh", inner) + 1.0)


def _gelu_table(op: Op) -> lut.Transform:
    expression = _stored_gelu(op)
    return lambda values: np.asarray(evaluate_expression(expression, [values], {}), np.float32)


_transcendental("GELU", WIDE_FORMS, gelu, _gelu_table, attrs=GeluAttrs)


def _log_of(op: Op) -> lut.Transform:
    """The natural logarithm; where x is not above zero, the output's lowest value."""
    result = op.outputs[0]
    least = np.float32(scale_of(result)) * np.float32(limits(result.dtype)[0] - zero_of(result))

    def transform(values: np.ndarray) -> np.ndarray:
        safe = np.where(values > 0, values, np.float32(1)).astype(np.float64)
        return np.where(values > 0, np.log(safe), least).astype(np.float32)

    return transform


_transcendental(
    "EXP",
    "FLOAT32 INT8 INT16",
    lambda op: call("exp", Var(0)),
    _in_double(np.exp),
)
_transcendental("LOG", "FLOAT32 INT8 INT16", lambda op: call("log", Var(0)), _log_of)


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
    EIGHT_BIT_FORMS,
    rules=(
        affine(0),
        in_reach(),
        Rule("output-scale", _output_not_finer, "the output scale is too small"),
    ),
    evaluate=_evaluate_hard_swish,
)
