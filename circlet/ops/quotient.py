"""DIV: of floats, of whole numbers, and of 8-bit values by a fixed-point reciprocal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ops import gemmlowp
from circlet.ops.elementwise import activated, binary, evaluate_scalar, kind_of
from circlet.ops.expr import Scalar, Var, call
from circlet.ops.fixed import activation_params
from circlet.ops.functions import FLOAT_KINDS
from circlet.ops.opdef import Arrays, Rule
from circlet.ops.operands import QUANTISED, affine, operand, present, scale_of, zero_of
from circlet.ops.requantize import quantize_multiplier, rounding_divide_by_pot

_WORD = 31


@dataclass(frozen=True)
class DivAttrs:
    """DIV's attributes."""

    activation: str = "NONE"


def quotient(op: Op) -> Scalar:
    """Of floats, or of whole numbers toward zero, 0 over 0; stored values have no expression."""
    if operand(op, 0).dtype in QUANTISED:
        raise GraphError("DIV of stored values has no expression", where=op.name)
    kind = kind_of(op)
    function = "div" if kind in FLOAT_KINDS else "div_trunc"
    return activated(call(function, Var(0, kind), Var(1, kind)), op)


def _factor(op: Op) -> float:
    """Real factor from the quotient of steps to steps of the output, formed in float32."""
    first, second = np.float32(scale_of(operand(op, 0))), np.float32(scale_of(operand(op, 1)))
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        return float(first / np.float32(second * np.float32(scale_of(op.outputs[0]))))


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    if operand(op, 0).dtype not in QUANTISED:
        return evaluate_scalar(quotient(op), op, inputs)
    first, second = (
        present(array).astype(np.int64) - zero_of(operand(op, index))
        for index, array in enumerate(inputs)
    )
    try:
        above, below = np.broadcast_arrays(first, second)
    except ValueError as error:
        raise GraphError("input sizes do not broadcast", where=op.name, why=str(error)) from None
    return [_stored(op, np.where(below < 0, -above, above), np.abs(below))]


def _stored(op: Op, above: gemmlowp.Int64, below: gemmlowp.Int64) -> np.ndarray:
    """Numerators shifted to 31 bits, times the reciprocal, times the factor."""
    inverse, over_unit = gemmlowp.reciprocal(np.maximum(below, 1), _WORD)
    headroom = _WORD - np.frexp(np.where(above < 0, -1 - above, above).astype(np.float64))[1]
    scaled = gemmlowp.high_mul(above << headroom, inverse)
    mantissa, shift = quantize_multiplier(_factor(op))
    right = np.maximum(over_unit + headroom - shift, 0)
    whole = _divide(gemmlowp.high_mul(scaled, np.int64(mantissa)), right)
    bounds = activation_params(op)
    result = np.clip(whole + zero_of(op.outputs[0]), bounds["low"], bounds["high"])
    return result.astype(op.outputs[0].dtype.numpy)


def _divide(values: gemmlowp.Int64, right: gemmlowp.Int64) -> gemmlowp.Int64:
    """Rounded division by powers of two; from 32 on as LiteRT's shifts do it, which wrap there."""
    wrapped = (values >> (right & _WORD)) + (values >= 0)
    return np.where(
        right > _WORD, wrapped, rounding_divide_by_pot(values, np.minimum(right, _WORD))
    )


def _in_reach(op: Op) -> bool:
    return operand(op, 0).dtype not in QUANTISED or 2.0**-31 < _factor(op) < 2.0**22


binary(
    "DIV",
    quotient,
    "FLOAT32 FLOAT64 INT32 UINT8 INT8",
    attrs=DivAttrs,
    rules=(
        affine(0, 1),
        Rule("output-scale", _in_reach, "the scales are too far apart", sized=False),
    ),
    evaluate=_evaluate,
)
