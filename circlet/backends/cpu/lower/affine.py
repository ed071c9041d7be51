"""Quantised sums as one affine form, where that gives every pair of bytes the exact result.

The records rescale both operands and the sum, each rounded twice. Over 65536 pairs that is nearly
always the same as one sum of products with enough fraction bits, at a third of the instructions;
the pairs are all compared, and where one differs the record's own expression is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil, floor, log2

import numpy as np

from circlet.ir import Op
from circlet.ops import get
from circlet.ops.arithmetic import common_scale_factors
from circlet.ops.expr import Expr, Number, Param, Scalar, Var, call, clamp, evaluate
from circlet.ops.fixed import activation_params
from circlet.ops.lut import EIGHT_BIT
from circlet.ops.operands import limits, operand, zero_of

_GUARD_BITS = 20
_TAIL_BITS = 20
_NUDGES = (0, 1 << 10, -(1 << 10), 1 << 14, -(1 << 14), 1 << 18, -(1 << 18))
_STRETCHES = tuple(sign * 2.0**-power for power in (27, 26, 25, 24, 28) for sign in (1, -1))


def may_be_affine(op: Op) -> bool:
    """Whether an op is an ADD or SUB of 8 bits."""
    if op.kind not in ("ADD", "SUB") or operand(op, 0).dtype not in EIGHT_BIT:
        return False
    return operand(op, 1).dtype == operand(op, 0).dtype and op.outputs[0].dtype in EIGHT_BIT


def affine_scalar(params: dict[str, Number] | None) -> Scalar | None:
    """The affine form with some parameters, None where there are none."""
    return None if params is None else Scalar(_expression(), params)


def affine_params(op: Op) -> dict[str, Number] | None:
    """Parameters of x * a + y * b + c with which it equals the record for all operands, or None."""
    pairs = _all_pairs(op)
    wanted = get(op).evaluate(op, pairs)[0]
    for nudge, stretch in _variants():
        params = _params(op, nudge, 1 + stretch)
        if np.array_equal(evaluate(_expression(), pairs, params), wanted):
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


def _params(op: Op, nudge: int, stretch: float) -> dict[str, Number]:
    factors = tuple(factor * stretch for factor in _factors(op))
    zeros = [zero_of(operand(op, index)) for index in range(2)]
    offset = zero_of(op.outputs[0]) + 0.5
    offset -= sum(f * zero for f, zero in zip(factors, zeros, strict=True))
    shift = 30 - ceil(log2(_reach(op, factors) + 2))
    params: dict[str, Number] = {"shift": shift, **activation_params(op)}
    for name, value in (("first", factors[0]), ("second", factors[1]), ("offset", offset)):
        scaled = value * 2.0**shift
        params[name] = floor(scaled)
        params[f"{name}_tail"] = round((scaled - floor(scaled)) * (1 << _TAIL_BITS))
    params["offset_tail"] += nudge
    return params


def _reach(op: Op, factors: Sequence[float]) -> float:
    """The largest absolute value of the unclamped result."""
    low, high = limits(operand(op, 0).dtype)
    reach = abs(zero_of(op.outputs[0])) + 1.0
    for index, factor in enumerate(factors):
        zero = zero_of(operand(op, index))
        reach += abs(factor) * max(abs(low - zero), abs(high - zero))
    return reach


@lru_cache(maxsize=1)
def _expression() -> Expr:
    x, y = Var(0, "i32"), Var(1, "i32")
    tail = x * Param("first_tail") + y * Param("second_tail") + Param("offset_tail")
    head = x * Param("first") + y * Param("second") + Param("offset")
    total = head + call("shr", tail, _TAIL_BITS)
    return clamp(call("shr", total, Param("shift")), Param("low"), Param("high"))
