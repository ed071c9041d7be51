"""Quantised sums as one affine form, where that is exact for every pair of 8-bit values.

The records rescale both operands and the sum, each rounded twice. Over 65536 pairs that is nearly
always the same as one sum of products with enough fraction bits, which `sum_q8.h` computes; the
pairs are all compared, and where one differs the record's own expression is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import floor, log2

import numpy as np

from circlet.ir import DType, Op
from circlet.ops import get
from circlet.ops.arithmetic import common_scale_factors
from circlet.ops.expr import Expr, Number, Param, Var, call, clamp, evaluate
from circlet.ops.fixed import activation_params
from circlet.ops.lut import EIGHT_BIT
from circlet.ops.operands import limits, operand, zero_of

_GUARD_BITS = 20  # left shift of operands in the 8-bit ADD of the reference
_WORD_BITS = 15
_TAIL_BITS = 14
_MOST_SHIFT = 16
_MOST_REACH = 1 << 13
_NUDGES = (0, 1, -1, 4, -4, 64, -64, 2, -2, 16, -16)
_STRETCHES = tuple(sign * 2.0**-power for power in (27, 26, 25, 24, 28) for sign in (1, -1))
_MIDDLE = 128
_FACTORS = ("first", "second")


def may_be_affine(op: Op) -> bool:
    """Whether an op is an ADD or SUB of 8 bits."""
    if op.kind not in ("ADD", "SUB") or operand(op, 0).dtype not in EIGHT_BIT:
        return False
    return operand(op, 0).dtype == operand(op, 1).dtype == op.outputs[0].dtype


def affine_params(op: Op) -> dict[str, Number] | None:
    """Parameters of x * a + y * b + c with which it equals the record for all operands, or None."""
    pairs = _all_pairs(op)
    wanted = get(op).evaluate(op, pairs)[0]
    for nudge, stretch in _variants():
        params = _params(op, nudge, 1 + stretch)
        if params and np.array_equal(evaluate(_expression(), pairs, params), wanted):
            return params
    return None


def _variants() -> Iterator[tuple[int, float]]:
    """Small changes of the offset, then of both factors: one may round the rare ties right."""
    yield from ((nudge, 0.0) for nudge in _NUDGES)
    yield from ((0, stretch) for stretch in _STRETCHES)


def _all_pairs(op: Op) -> list[np.ndarray]:
    values = np.arange(256, dtype=np.uint8).view(operand(op, 0).dtype.numpy)
    return [values[:, None], values[None, :]]


def _factors(op: Op) -> tuple[float, float]:
    """Real factors of both operands to the output's scale."""
    first, second, output = common_scale_factors(op)
    total = output * (1 << _GUARD_BITS)
    return first * total, second * total * (1 if op.kind == "ADD" else -1)


def _params(op: Op, nudge: int, stretch: float) -> dict[str, Number] | None:
    factors = tuple(factor * stretch for factor in _factors(op))
    if _reach(op, factors) > _MOST_REACH:
        return None
    shift = _shift(factors)
    zeros = [zero_of(operand(op, index)) for index in range(2)]
    offset = zero_of(op.outputs[0]) + 0.5
    offset -= sum(f * zero for f, zero in zip(factors, zeros, strict=True))
    params: dict[str, Number] = {"shift": shift, **activation_params(op)}
    wanted = {"first": factors[0], "second": factors[1], "offset": offset}
    for name, value in wanted.items():
        bits = round(value * 2.0 ** (shift + _TAIL_BITS)) + (nudge if name == "offset" else 0)
        params[name], params[f"{name}_tail"] = divmod(bits, 1 << _TAIL_BITS)
    return params


def _shift(factors: Sequence[float]) -> int:
    """The fraction bits of heads, with which the wider factor's fits 16 bits."""
    widest = ((1 << _WORD_BITS) - 1) / max(abs(factor) for factor in factors)
    return min(floor(log2(widest)), _MOST_SHIFT)


def _reach(op: Op, factors: Sequence[float]) -> float:
    """The largest absolute value of the unclamped result."""
    low, high = limits(operand(op, 0).dtype)
    reach = abs(zero_of(op.outputs[0])) + 1.0
    for index, factor in enumerate(factors):
        zero = zero_of(operand(op, index))
        reach += abs(factor) * max(abs(low - zero), abs(high - zero))
    return reach


def sum_ints(op: Op, params: Mapping[str, Number]) -> list[int]:
    """What `sum_q8.h` reads: operands are unsigned there, and results signed."""
    heads, tails = ([int(params[f"{n}{t}"]) for n in _FACTORS] for t in ("", "_tail"))
    offset, offset_tail, shift = (int(params[n]) for n in ("offset", "offset_tail", "shift"))
    bounds = [int(params["low"]), int(params["high"])]
    offset = (offset << _TAIL_BITS) + offset_tail
    if operand(op, 0).dtype is DType.INT8:
        offset -= _MIDDLE * ((sum(heads) << _TAIL_BITS) + sum(tails))
    else:
        offset -= _MIDDLE << shift + _TAIL_BITS
        bounds = [bound - _MIDDLE for bound in bounds]
    whole, fraction = divmod(offset, 1 << shift + _TAIL_BITS)
    return [_words(heads), _words(tails), whole, fraction, shift, *bounds]


def sum_row(op: Op, params: Mapping[str, Number], is_single: Sequence[bool]) -> tuple[str, str]:
    """The function for a row of sums, and the C text that defines it."""
    is_bounded = (params["low"], params["high"]) != limits(operand(op, 0).dtype)
    flags = [operand(op, 0).dtype is DType.INT8, *is_single, is_bounded]
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
