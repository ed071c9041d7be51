"""SOFTMAX and LOG_SOFTMAX along the last axis."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops import gemmlowp, softmax16
from circlet.ops.opdef import Arrays, Cost, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    QUANTISED,
    affine,
    count,
    limits,
    operand,
    present,
    same_as_first,
    scale_of,
    zero_of,
)
from circlet.ops.parts import by_rows
from circlet.ops.requantize import quantize_multiplier, rounding_divide_by_pot

_DIFF_INTEGER_BITS = 5
_SUM_INTEGER_BITS = 12
_WORK = 8  # of an element of a row, in visits
_TYPES = ("FLOAT32 -> FLOAT32", "INT8 -> INT8", "UINT8 -> UINT8", "INT8 -> INT16", "INT16 -> INT16")


@dataclass(frozen=True)
class SoftmaxAttrs:
    """Factor of the exponent."""

    beta: float = 0.0


def exponent_params(op: Op) -> tuple[int, int, int]:
    """Mantissa and shift that scale a difference to Q5.26, and the smallest difference kept."""
    beta = float(np.float32(op.attributes(SoftmaxAttrs).beta))
    real = beta * scale_of(operand(op, 0)) * (1 << (31 - _DIFF_INTEGER_BITS))
    mantissa, shift = quantize_multiplier(min(real, float((1 << 31) - 1)))
    return mantissa, shift, -input_radius(_DIFF_INTEGER_BITS, shift)


def input_radius(integer_bits: int, shift: int) -> int:
    """Largest difference that the fixed-point exponent takes."""
    return int(((1 << integer_bits) - 1) * 2.0 ** (31 - integer_bits - shift))


def int16_factor(op: Op) -> float:
    """Real factor of the differences of int16 elements to steps of the table of powers."""
    return softmax16.input_factor(scale_of(operand(op, 0)), op.attributes(SoftmaxAttrs).beta)


def _rows(op: Op, inputs: Arrays) -> np.ndarray:
    """The input; GraphError where a run shows that it has no last axis with elements."""
    values = present(inputs[0])
    if values.ndim == 0 or values.shape[-1] == 0:
        raise GraphError(f"no last axis with elements in sizes {values.shape}", where=op.name)
    return values


def _evaluate_softmax(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values = _rows(op, inputs)
    return by_rows(lambda rows: [_softmax_of_rows(op, rows)], values, _WORK)


def _softmax_of_rows(op: Op, values: np.ndarray) -> np.ndarray:
    if operand(op, 0).dtype == DType.INT16:
        return softmax16.softmax(values, int16_factor(op))
    if operand(op, 0).dtype in QUANTISED:
        return _softmax_stored(op, values)
    beta = np.float32(op.attributes(SoftmaxAttrs).beta)
    with np.errstate(over="ignore", invalid="ignore"):
        power = np.exp((values - values.max(axis=-1, keepdims=True)) * beta)
    shares: np.ndarray = power / power.sum(axis=-1, keepdims=True, dtype=np.float32)
    return shares


def _softmax_stored(op: Op, values: np.ndarray) -> np.ndarray:
    """Fixed point: exp in Q0.31, sums in Q12.19, one reciprocal per row."""
    mantissa, shift, smallest = exponent_params(op)
    low, high = limits(op.outputs[0].dtype)
    diff = values.astype(np.int64) - values.max(axis=-1, keepdims=True).astype(np.int64)
    kept = diff >= smallest
    power = gemmlowp.exp_on_negative(_scaled(np.where(kept, diff, 0), mantissa, shift))
    terms = np.where(kept, rounding_divide_by_pot(power, _SUM_INTEGER_BITS), 0)
    reciprocal, over_unit = gemmlowp.reciprocal(
        gemmlowp.wrap(terms.sum(axis=-1, keepdims=True)), _SUM_INTEGER_BITS
    )
    scaled = gemmlowp.high_mul(reciprocal, power)
    exponent = over_unit + 31 - op.outputs[0].dtype.bits
    shifted = np.clip(rounding_divide_by_pot(scaled, exponent) + low, low, high)
    return np.where(kept, shifted, low).astype(op.outputs[0].dtype.numpy)


def _scaled(diff: np.ndarray, mantissa: int, shift: int) -> np.ndarray:
    return gemmlowp.high_mul(gemmlowp.wrap(diff << shift), np.int64(mantissa))


def _infer_softmax(op: Op) -> list[TensorType]:
    return [TensorType(op.outputs[0].dtype, operand(op, 0).shape)]


def _softmax_output(op: Op) -> bool:
    result = op.outputs[0]
    if result.dtype == DType.INT8:
        return zero_of(result) == -128 and abs(scale_of(result) * 256 - 1) <= 0.001
    if operand(op, 0).dtype == DType.INT16:
        return zero_of(result) == 0 and abs(scale_of(result) * (1 << 15) - 1) <= 0.001
    if result.dtype == DType.INT16:
        return zero_of(result) == -(1 << 15) and abs(scale_of(result) * 65536 - 1) <= 0.001
    return True


def _exponent_fits(op: Op) -> bool:
    """LiteRT demands a factor above 1, so that differences are shifted left."""
    if operand(op, 0).dtype not in QUANTISED:
        return True
    if operand(op, 0).dtype == DType.INT16:
        return 0 < int16_factor(op) < 1 << 15
    _, shift, smallest = exponent_params(op)
    return 0 <= shift <= 31 and smallest <= 0


def _beta_fits(op: Op) -> bool:
    beta = op.attributes(SoftmaxAttrs).beta
    return isfinite(beta) and (operand(op, 0).dtype not in QUANTISED or beta > 0)


def _has_last_axis(op: Op) -> bool:
    source = operand(op, 0)
    return not source.has_rank or (len(source.shape) > 0 and source.shape[-1] != 0)


_LAST_AXIS = Rule(
    "last-axis",
    _has_last_axis,
    "the input needs a last axis with elements",
)


def softmax_cost(op: Op) -> Cost:
    """A few operations per element; bytes read once and written once."""
    source = operand(op, 0)
    work = 8 * (count(source.static_shape) or 0)
    return Cost(arithmetic=work, bytes=source.size_bytes + op.outputs[0].size_bytes)


register(
    OpDef(
        kind="SOFTMAX",
        attrs=SoftmaxAttrs,
        arity=(1, 1),
        dtypes=_TYPES,
        infer=_infer_softmax,
        evaluate=_evaluate_softmax,
        rules=(
            _LAST_AXIS,
            affine(0),
            Rule("beta", _beta_fits, "beta must be finite, and positive for stored values"),
            Rule("input-scale", _exponent_fits, "input scale times beta is out of reach"),
            Rule(
                "output-scale",
                _softmax_output,
                "int8 output needs scale 1/256, zero -128 (int16 likewise; of int16 1/32768, 0)",
            ),
        ),
        numerics="tolerance",
        quant=QuantRule(fixed=((DType.INT8, 1 / 256, -128), (DType.UINT8, 1 / 256, 0))),
        cost=softmax_cost,
    )
)


def _log_softmax_stored(op: Op, values: np.ndarray) -> np.ndarray:
    """In double on input steps, to the nearest output step, halves to even."""
    result, scale = op.outputs[0], scale_of(operand(op, 0))
    shifted = (values.astype(np.int32) - values.max(axis=-1, keepdims=True)) * scale
    total = np.exp(shifted).sum(axis=-1, keepdims=True)
    stored = np.rint((shifted - np.log(total)) / scale_of(result) + zero_of(result))
    inside: np.ndarray = np.clip(stored, *limits(result.dtype))
    return inside.astype(result.dtype.numpy)


def _evaluate_log_softmax(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values = _rows(op, inputs)
    return by_rows(lambda rows: [_log_softmax_of_rows(op, rows)], values, _WORK)


def _log_softmax_of_rows(op: Op, values: np.ndarray) -> np.ndarray:
    if operand(op, 0).dtype in QUANTISED:
        return _log_softmax_stored(op, values)
    shifted = values - values.max(axis=-1, keepdims=True)
    total = np.exp(shifted).sum(axis=-1, keepdims=True, dtype=np.float32)
    return np.asarray(shifted - np.log(total), np.float32)


register(
    OpDef(
        kind="LOG_SOFTMAX",
        arity=(1, 1),
        dtypes=("FLOAT32 -> FLOAT32", "UINT8 -> UINT8", "INT8 -> INT8"),
        infer=same_as_first,
        evaluate=_evaluate_log_softmax,
        rules=(_LAST_AXIS, affine(0)),
        numerics="tolerance",
        quant=QuantRule(fixed=((DType.INT8, 1 / 16, 127), (DType.UINT8, 1 / 16, 255))),
        cost=softmax_cost,
    )
)
