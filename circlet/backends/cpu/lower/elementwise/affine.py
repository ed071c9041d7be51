"""Quantised sums as one affine form, where that is exact for every pair of 8-bit values.

The records rescale both operands and the sum, each rounded twice. Over 65536 pairs that is nearly
always the same as one sum of products with enough fraction bits, which `sum_q8.h` computes; the
pairs are all compared, and where one differs the record's own expression is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import floor, log2
from typing import NamedTuple

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ops import get
from circlet.ops.arithmetic import common_scale_factors
from circlet.ops.expr import Expr, Number, Param, Var, call, clamp, evaluate
from circlet.ops.fixed import activation_params
from circlet.ops.fused import FUSED_ELEMENTWISE, parts_of
from circlet.ops.lut import EIGHT_BIT
from circlet.ops.onnx.quantisation import DEQUANTIZE, QUANTIZE
from circlet.ops.operands import limits, operand, zero_of

_GUARD_BITS = 20  # left shift of operands in the 8-bit ADD of the reference
_WORD_BITS = 15
_TAIL_BITS = 14
_MOST_SHIFT = 16
_MOST_REACH = 1 << 13
_MOST_STRETCH = 1 + 2.0**-20  # more than that of any variant
_NUDGES = (0, 1, -1, 4, -4, 64, -64, 2, -2, 16, -16)
_STRETCHES = tuple(sign * 2.0**-power for power in (27, 26, 25, 24, 28) for sign in (1, -1))
_MIDDLE = 128
_FACTORS = ("first", "second")
_SIGNS = {"ADD": 1, "SUB": -1}
_PARTS = 4  # of a fused sum


class Sum(NamedTuple):
    """round((x - zeros[0]) * factors[0] + (y - zeros[1]) * factors[1]) + zero_out, clamped.

    Attributes:
        operands: x and y, of one 8-bit type, which is the result's too.
        low, high: What is stored at least and at most.
    """

    operands: tuple[Tensor, Tensor]
    factors: tuple[float, float]
    zeros: tuple[int, int]
    zero_out: int
    low: Number
    high: Number

    @property
    def dtype(self) -> DType:
        """The type of operands and results."""
        return self.operands[0].dtype


def sum_of(op: Op) -> Sum | None:
    """What an ADD or SUB of 8 bits sums, or one of floats between 8 bits; None of other ops."""
    operands = [tensor for tensor in op.inputs if tensor is not None]
    types = {operands[0].dtype, operands[-1].dtype, op.outputs[0].dtype}
    if op.kind == FUSED_ELEMENTWISE:
        return _fused_sum(op)
    if op.kind not in ("ADD", "SUB") or len(types) > 1 or not types <= EIGHT_BIT:
        return None
    x, y = operands
    first, second, output = common_scale_factors(op)
    total = output * (1 << _GUARD_BITS)
    factors = first * total, second * total * _SIGNS[op.kind]
    zeros, bounds = (zero_of(x), zero_of(y)), activation_params(op)
    return Sum((x, y), factors, zeros, zero_of(op.outputs[0]), bounds["low"], bounds["high"])


def _fused_sum(op: Op) -> Sum | None:
    """Of DequantizeLinear twice, ADD or SUB, and QuantizeLinear, all by one scale each."""
    makers = {part.outputs[0]: part for part in parts_of(op)}
    last = makers[op.outputs[0]]
    middle = makers.get(operand(last, 0))
    if len(makers) != _PARTS or last.label != QUANTIZE or middle is None:
        return None
    ends = [makers.get(tensor) for tensor in middle.inputs if tensor is not None]
    activation = getattr(middle.attrs, "activation", "")
    if middle.kind not in _SIGNS or activation not in ("NONE", "RELU") or len(ends) != 2:
        return None
    stored = [_affine(part, DEQUANTIZE) for part in ends] + [_affine(last, QUANTIZE)]
    operands = [operand(part, 0) for part in ends if part is not None]
    types = {tensor.dtype for tensor in (*operands, op.outputs[0])}
    if None in stored or len(types) > 1 or not types <= EIGHT_BIT:
        return None
    (x, zero_x), (y, zero_y), (out, zero) = (pair for pair in stored if pair is not None)
    factors = x / out, y / out * _SIGNS[middle.kind]
    low, high = limits(op.outputs[0].dtype)
    low = max(low, zero) if activation == "RELU" else low
    return Sum((operands[0], operands[1]), factors, (zero_x, zero_y), zero, low, high)


def _affine(part: Op | None, label: str) -> tuple[float, int] | None:
    """The scale and the zero point of an op of this label, if each is one constant."""
    if part is None or part.label != label or len(part.inputs) != 3:
        return None
    arrays = [tensor.data for tensor in part.inputs[1:] if tensor is not None]
    if len(arrays) != 2 or any(array is None or array.size != 1 for array in arrays):
        return None
    scale, zero = (np.asarray(array).reshape(()) for array in arrays)
    return (float(scale), int(zero)) if scale > 0 else None


def affine_params(op: Op) -> dict[str, Number] | None:
    """Parameters of x * a + y * b + c with which it equals the record for all operands, or None."""
    found = sum_of(op)
    if found is None or _reach(found) > _MOST_REACH:
        return None
    pairs = _all_pairs(found.dtype)
    wanted = get(op).evaluate(op, _arrays(op, found, pairs))[0]
    for nudge, stretch in _variants():
        params = _params(found, nudge, 1 + stretch)
        if np.array_equal(evaluate(_expression(), pairs, params), wanted):
            return params
    return None


def _variants() -> Iterator[tuple[int, float]]:
    """Small changes of the offset, then of both factors: one may round the rare ties right."""
    yield from ((nudge, 0.0) for nudge in _NUDGES)
    yield from ((0, stretch) for stretch in _STRETCHES)


def _all_pairs(dtype: DType) -> list[np.ndarray]:
    values = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    return [values[:, None], values[None, :]]


def _arrays(op: Op, found: Sum, pairs: Sequence[np.ndarray]) -> list[np.ndarray | None]:
    """The operands of an op with all pairs for those that are summed."""
    known = dict(zip(found.operands, pairs, strict=True))
    return [None if t is None else known.get(t, t.data) for t in op.inputs]


def _params(found: Sum, nudge: int, stretch: float) -> dict[str, Number]:
    factors = tuple(factor * stretch for factor in found.factors)
    shift = _shift(factors)
    offset = found.zero_out + 0.5
    offset -= sum(f * zero for f, zero in zip(factors, found.zeros, strict=True))
    params: dict[str, Number] = {"shift": shift, "low": found.low, "high": found.high}
    wanted = {"first": factors[0], "second": factors[1], "offset": offset}
    for name, value in wanted.items():
        bits = round(value * 2.0 ** (shift + _TAIL_BITS)) + (nudge if name == "offset" else 0)
        params[name], params[f"{name}_tail"] = divmod(bits, 1 << _TAIL_BITS)
    return params


def _shift(factors: Sequence[float]) -> int:
    """The fraction bits of heads, with which the wider factor's fits 16 bits."""
    widest = ((1 << _WORD_BITS) - 1) / max(abs(factor) for factor in factors)
    return min(floor(log2(widest)), _MOST_SHIFT)


def _reach(found: Sum) -> float:
    """The largest absolute value of the unclamped result, or more."""
    low, high = limits(found.dtype)
    reach = abs(found.zero_out) + 1.0
    for factor, zero in zip(found.factors, found.zeros, strict=True):
        reach += abs(factor) * max(abs(low - zero), abs(high - zero)) * _MOST_STRETCH
    return reach


def sum_ints(dtype: DType, params: Mapping[str, Number]) -> list[int]:
    """What `sum_q8.h` reads: operands are unsigned there, and results signed."""
    heads, tails = ([int(params[f"{n}{t}"]) for n in _FACTORS] for t in ("", "_tail"))
    offset, offset_tail, shift = (int(params[n]) for n in ("offset", "offset_tail", "shift"))
    bounds = [int(params["low"]), int(params["high"])]
    offset = (offset << _TAIL_BITS) + offset_tail
    if dtype is DType.INT8:
        offset -= _MIDDLE * ((sum(heads) << _TAIL_BITS) + sum(tails))
    else:
        offset -= _MIDDLE << shift + _TAIL_BITS
        bounds = [bound - _MIDDLE for bound in bounds]
    whole, fraction = divmod(offset, 1 << shift + _TAIL_BITS)
    return [_words(heads), _words(tails), whole, fraction, shift, *bounds]


def sum_row(
    dtype: DType, params: Mapping[str, Number], is_single: Sequence[bool]
) -> tuple[str, str]:
    """The function for a row of sums, and the C text that defines it."""
    is_bounded = (params["low"], params["high"]) != limits(dtype)
    flags = [dtype is DType.INT8, *is_single, is_bounded]
    digits = [str(int(flag)) for flag in flags]
    name = f"sum_q8_{''.join(digits)}"
    return name, f"SUM_Q8_ROW({name}, {', '.join(digits)})\n"


def _words(pair: Sequence[int]) -> int:
    """Two int16 as an int32, the first in its lower half."""
    return pair[1] * (1 << 16) + pair[0] % (1 << 16)


@lru_cache(maxsize=1)
def _expression() -> Expr:
    x, y = Var(0, "i32"), Var(1, "i32")
    tail = x * Param("first_tail") + y * Param("second_tail") + Param("offset_tail")
    head = x * Param("first") + y * Param("second") + Param("offset")
    total = head + call("shr", tail, _TAIL_BITS)
    return clamp(call("shr", total, Param("shift")), Param("low"), Param("high"))
