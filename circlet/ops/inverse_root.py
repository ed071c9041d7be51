"""Roots of stored values: SQRT, and 1 / sqrt(x) in fixed point for RSQRT and L2_NORMALIZATION."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops import checks, lut16
from circlet.ops.elementwise import element_cost, evaluate_scalar, unary
from circlet.ops.expr import Scalar, Var, call
from circlet.ops.gemmlowp import high_mul, wrap
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, register
from circlet.ops.operands import (
    QUANTISED,
    affine,
    limits,
    operand,
    present,
    same_as_first,
    scale_of,
    zero_of,
)
from circlet.ops.requantize import (
    INT32_MAX,
    INT32_MIN,
    activation_of,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
)

Int64 = npt.NDArray[np.int64]

_ONE_AND_A_HALF = (1 << 28) + (1 << 27)  # in Q3.28
_HALF_ROOT_OF_TWO = 1518500250  # in Q0.31; makes up for the halving of `raw`
_NEWTON_STEPS = 5
_SPARE_BITS = 20  # kShift of the reference: fraction bits kept between both factors
INT16_MAX = (1 << 15) - 1
_SMALLEST_NORM = np.float32(1e-6)


def inverse_root(values: Int64) -> tuple[Int64, Int64]:
    """Mantissas and right shifts of 1 / sqrt(x) for x >= 0; 0 counts as 1.

    Newton's method from 1 on numbers of 3 integer bits, as the reference kernels do it.
    """
    scaled, shift = np.maximum(values, 2).astype(np.int64), np.full(values.shape, 11, np.int64)
    while (large := scaled >= 1 << 29).any():
        scaled, shift = np.where(large, scaled // 4, scaled), shift + large
    pairs = (31 - np.frexp(scaled.astype(np.float64))[1].astype(np.int64)) // 2 - 1
    raw = (scaled << (2 * pairs)) >> 1
    mantissa, right = high_mul(_newton(raw), np.int64(_HALF_ROOT_OF_TWO)), shift - pairs
    mantissa = wrap(mantissa << np.maximum(-right, 0))
    small = values <= 1
    return np.where(small, INT32_MAX, mantissa), np.where(small, 0, np.maximum(right, 0))


def _newton(raw: Int64) -> Int64:
    half = rounding_divide_by_pot(raw, 1)
    x = np.full(raw.shape, 1 << 28, np.int64)
    for _ in range(_NEWTON_STEPS):
        cube = _saturating_shift(high_mul(high_mul(x, x), x), 6)
        x = _saturating_shift(
            wrap(high_mul(np.int64(_ONE_AND_A_HALF), x) - high_mul(half, cube)), 3
        )
    return x


def _saturating_shift(raw: Int64, bits: int) -> Int64:
    shifted: Int64 = np.clip(raw << bits, INT32_MIN, INT32_MAX)
    return shifted


def _is_quantised(op: Op) -> bool:
    return operand(op, 0).dtype in QUANTISED


def root_factor(op: Op) -> tuple[int, int]:
    """Mantissa and shift from 1 / sqrt(steps of the input) to steps of the output."""
    real = 1.0 / (sqrt(scale_of(operand(op, 0))) * scale_of(op.outputs[0]))
    return quantize_multiplier(real)


def rsqrt_scalar(op: Op) -> Scalar:
    """RSQRT of floats; stored values go through a table."""
    if _is_quantised(op):
        raise GraphError("RSQRT of stored values has no expression", where=op.name)
    return Scalar(call("rsqrt", Var(0)))


def _stored_rsqrt(op: Op, values: np.ndarray) -> np.ndarray:
    """Values at or below zero give the largest number (the reference refuses those below)."""
    if values.dtype == np.int16:
        return lut16.apply(lut16.tabulated(operand(op, 0), op.outputs[0], _rsqrt_of(op)), values)
    low, high = limits(op.outputs[0].dtype)
    centred = values.astype(np.int64) - zero_of(operand(op, 0))
    mantissa, right = inverse_root(np.maximum(centred, 1))
    data = multiply_by_quantized_multiplier(np.ones_like(centred), mantissa, _SPARE_BITS - right)
    factor, shift = root_factor(op)
    scaled = multiply_by_quantized_multiplier(data, factor, shift - _SPARE_BITS)
    steps = np.clip(scaled + zero_of(op.outputs[0]), low, high)
    return np.where(centred > 0, steps, high).astype(values.dtype)


def _rsqrt_of(op: Op) -> lut16.Transform:
    """1 / sqrt(x), where x is not above zero the output's largest value."""
    result = op.outputs[0]
    most = np.float32(scale_of(result)) * np.float32(INT16_MAX - zero_of(result))

    def transform(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        safe = np.where(values > 0, values, np.float32(1))
        return np.asarray(np.where(values > 0, np.float32(1) / np.sqrt(safe), most), np.float32)

    return transform


def _evaluate_rsqrt(op: Op, inputs: Arrays) -> list[np.ndarray]:
    if _is_quantised(op):
        return [_stored_rsqrt(op, present(inputs[0]))]
    return evaluate_scalar(rsqrt_scalar(op), op, inputs)


def _root_in_reach(op: Op) -> bool:
    eight_bit = operand(op, 0).dtype == DType.INT8
    return not eight_bit or -10 <= root_factor(op)[1] <= _SPARE_BITS


unary(
    "RSQRT",
    rsqrt_scalar,
    "FLOAT32 INT8 INT16",
    rules=(
        affine(0),
        Rule("output-scale", _root_in_reach, "the scales of input and output are out of reach"),
    ),
    evaluate=_evaluate_rsqrt,
)


def sqrt_scalar(op: Op) -> Scalar:
    """SQRT of floats; stored values go through a table."""
    if _is_quantised(op):
        raise GraphError("SQRT of stored values has no expression", where=op.name)
    return Scalar(call("sqrt", Var(0)))


def _evaluate_sqrt(op: Op, inputs: Arrays) -> list[np.ndarray]:
    """Whole steps of the output, rounded down; the reference refuses values below zero."""
    if not _is_quantised(op):
        return evaluate_scalar(sqrt_scalar(op), op, inputs)
    values, result = present(inputs[0]), op.outputs[0]
    centred = np.maximum(values.astype(np.int32) - zero_of(operand(op, 0)), 0)
    real = np.float32(scale_of(operand(op, 0))) * centred.astype(np.float32)
    steps = np.trunc(np.sqrt(real) / np.float32(scale_of(result))) + zero_of(result)
    return [np.clip(steps, *limits(result.dtype)).astype(values.dtype)]


unary(
    "SQRT",
    sqrt_scalar,
    "FLOAT32 INT8 INT16",
    rules=(affine(0),),
    evaluate=_evaluate_sqrt,
)


@dataclass(frozen=True)
class L2NormAttrs:
    """L2_NORMALIZATION's attributes."""

    activation: str = "NONE"


def _stored_norm(op: Op, values: np.ndarray) -> np.ndarray:
    source, result = operand(op, 0), op.outputs[0]
    centred = values.astype(np.int64) - zero_of(source)
    mantissa, right = inverse_root(wrap((centred * centred).sum(axis=-1, keepdims=True)))
    if result.dtype == DType.UINT8:
        zero, steps = 128, rounding_divide_by_pot(high_mul(128 * centred, mantissa), right)
    else:
        zero, steps = 0, multiply_by_quantized_multiplier(centred, mantissa, 7 - right)
    return np.clip(steps + zero, *limits(result.dtype)).astype(values.dtype)


def _evaluate_norm(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values = present(inputs[0])
    if _is_quantised(op):
        return [_stored_norm(op, values)]
    squares = (values * values).sum(axis=-1, keepdims=True, dtype=np.float32)
    normed = values / np.maximum(np.sqrt(squares), _SMALLEST_NORM)
    return [np.asarray(normed, np.float32)]


def _norm_output(op: Op) -> bool:
    result = op.outputs[0]
    zero = 128 if result.dtype == DType.UINT8 else 0
    return not _is_quantised(op) or (scale_of(result) == 1 / 128 and zero_of(result) == zero)


register(
    OpDef(
        kind="L2_NORMALIZATION",
        attrs=L2NormAttrs,
        arity=(1, 1),
        dtypes=("FLOAT32 -> FLOAT32", "INT8 -> INT8", "UINT8 -> UINT8"),
        infer=same_as_first,
        evaluate=_evaluate_norm,
        rules=(
            checks.has_last_axis(0),
            Rule(
                "activation",
                lambda op: activation_of(op) == "NONE",
                "a fused activation is not defined here",
            ),
            affine(0),
            Rule("output-scale", _norm_output, "the output needs scale 1/128 and its zero point"),
        ),
        numerics="tolerance",
        quant=QuantRule(fixed=((DType.INT8, 1 / 128, 0), (DType.UINT8, 1 / 128, 128))),
        cost=element_cost,
    )
)
