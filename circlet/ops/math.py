"""Functions of numbers: sines, powers, rounding, signs, whole quotients, FAKE_QUANT, ADD_N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ops.elementwise import (
    binary,
    element_cost,
    kind_of,
    plain,
    unary,
)
from circlet.ops.expr import Call, Const, Expr, Param, Scalar, Var, call, clamp
from circlet.ops.functions import FLOAT_KINDS
from circlet.ops.opdef import Arrays, OpDef, Rule, register
from circlet.ops.operands import operand, present, same_as_first

_MOST_BITS = 16
_MOST_TERMS = 64

unary("SIN", plain(lambda x: call("sin", x)), "FLOAT32")
unary("COS", plain(lambda x: call("cos", x)), "FLOAT32")
unary("CEIL", plain(lambda x: call("ceil", x)), "FLOAT32 FLOAT64", numerics="exact")
unary("ROUND", plain(lambda x: call("round_half_even", x)), "FLOAT32 FLOAT64", numerics="exact")


def _sign(x: Expr) -> Call:
    """1, -1 or 0 by comparisons; a product with 0 would make infinity no number. NaN stays."""
    number = float if x.kind in FLOAT_KINDS else int
    minus, zero, one = (Const(number(value), x.kind) for value in (-1, 0, 1))
    rest = call("select", x.equals(x), zero, x)
    return call("select", x > 0, one, call("select", x < 0, minus, rest))


unary("SIGN", plain(_sign), "FLOAT32 FLOAT64 INT32", numerics="exact")
binary("ATAN2", plain(lambda y, x: call("atan2", y, x)), "FLOAT32")


def _root(x: Expr) -> Call:
    """The square root as a power has it: of -0 it is 0, of minus infinity infinity."""
    infinity = Const(np.inf)
    return call("select", x.equals(Const(-np.inf)), infinity, call("sqrt", x) + Const(0.0))


# Powers that a few operations give to within the last digits, as `pow` does in many more.
_POWERS: dict[float, Callable[[Expr], Expr]] = {
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    4.0: lambda x: (x * x) * (x * x),
    -1.0: lambda x: Const(1.0) / x,
    0.5: _root,
    -0.5: lambda x: Const(1.0) / _root(x),
}


def _power(op: Op) -> Scalar:
    """a to the power b; by products and roots where b is one constant number of a few."""
    base, exponent = operand(op, 0), operand(op, 1)
    kind = kind_of(op)
    is_known = kind == "f32" and exponent.is_constant and exponent.elements == 1
    if is_known and len(exponent.shape) <= len(base.shape):
        known = _POWERS.get(float(np.asarray(exponent.data).reshape(-1)[0]))
        if known is not None:
            return Scalar(known(Var(0, kind)))
    return Scalar(call("pow", Var(0, kind), Var(1, kind)))


binary("POW", _power, "FLOAT32 INT32")
binary(
    "FLOOR_DIV",
    plain(lambda a, b: call("floor_div", a, b)),
    "FLOAT32 INT8 INT16 INT32",
)
binary(
    "FLOOR_MOD",
    plain(lambda a, b: call("floor_mod", a, b)),
    "FLOAT32 INT8 INT16 INT32 INT64",
)


def _total(op: Op) -> Scalar:
    """The sum as an expression, which is as deep as it has terms."""
    if len(op.inputs) > _MOST_TERMS:
        raise GraphError(f"sums more than {_MOST_TERMS} operands", where=op.name)
    terms: list[Expr] = [Var(index, kind_of(op)) for index in range(len(op.inputs))]
    return Scalar(reduce(lambda a, b: a + b, terms))


def _same_sizes(op: Op) -> bool:
    first = operand(op, 0)
    tensors = [operand(op, index) for index in range(len(op.inputs))]
    same = all(len(t.shape) == len(first.shape) for t in tensors)
    return same and all(
        len({*sizes} - {None}) <= 1 for sizes in zip(*(t.shape for t in tensors), strict=True)
    )


def _evaluate_total(op: Op, inputs: Arrays) -> list[np.ndarray]:
    """The terms added in their order, as the expression of few has it."""
    first, *rest = map(present, inputs)
    with np.errstate(all="ignore"):
        return [reduce(np.add, rest, first)]


register(
    OpDef(
        kind="ADD_N",
        arity=(1, 1 << 12),
        dtypes=("FLOAT32 -> FLOAT32", "INT32 -> INT32"),
        infer=same_as_first,
        evaluate=_evaluate_total,
        identity=lambda op: len(op.inputs) == 1,
        rules=(
            Rule(
                "same-types",
                lambda op: len({t.dtype for t in op.inputs if t is not None}) == 1,
                "the inputs must have one element type",
            ),
            Rule(
                "all-present",
                lambda op: all(t is not None for t in op.inputs),
                "no input may be omitted",
            ),
            Rule("same-sizes", _same_sizes, "the inputs must have equal sizes"),
        ),
        numerics="tolerance",
        cost=element_cost,
        scalar=_total,
    )
)


@dataclass(frozen=True)
class FakeQuantAttrs:
    """The real range that quantised values would have."""

    min: float = 0.0
    max: float = 0.0
    num_bits: int = 0
    narrow_range: bool = False


def nudged_range(attrs: FakeQuantAttrs) -> tuple[np.float32, np.float32, np.float32]:
    """Bounds moved so that zero is a step, and the step, in float32."""
    lowest, highest = int(attrs.narrow_range), (1 << attrs.num_bits) - 1
    low, high = np.float32(attrs.min), np.float32(attrs.max)
    step = np.float32((high - low) / np.float32(highest - lowest))
    zero = np.float32(lowest) - low / step
    inside = min(max(float(zero), float(lowest)), float(highest))
    whole = np.floor(np.float32(inside) + np.float32(0.5))
    return (
        np.float32((np.float32(lowest) - whole) * step),
        np.float32((np.float32(highest) - whole) * step),
        step,
    )


def fake_quant(op: Op) -> Scalar:
    """A real value moved to the nearest step of the nudged range."""
    attrs = op.attributes(FakeQuantAttrs)
    low, high, step = nudged_range(attrs)
    inside = clamp(Var(0), Param("low", "f32"), Param("high", "f32"))
    steps = call("round_half_away", (inside - Param("low", "f32")) * Param("inverse", "f32"))
    value = steps * Param("step", "f32") + Param("low", "f32")
    inverse = float(np.float32(1) / step)
    params = {"low": float(low), "high": float(high), "step": float(step), "inverse": inverse}
    return Scalar(value, params)


def _range_valid(op: Op) -> bool:
    attrs = op.attributes(FakeQuantAttrs)
    width = attrs.max - attrs.min
    return attrs.min <= 0 <= attrs.max and 2.0**-60 <= width <= 2.0**60


unary(
    "FAKE_QUANT",
    fake_quant,
    "FLOAT32",
    attrs=FakeQuantAttrs,
    rules=(
        Rule(
            "bits",
            lambda op: 2 <= op.attributes(FakeQuantAttrs).num_bits <= _MOST_BITS,
            f"num_bits must be between 2 and {_MOST_BITS}",
        ),
        Rule("range", _range_valid, "the range must be finite, wider than 0 and hold 0"),
    ),
    numerics="tolerance",
)
