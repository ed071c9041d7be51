"""Element-wise arithmetic of StableHLO: operands of one type and of equal sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.elementwise import element_cost, evaluate_scalar
from circlet.ops.expr import Call, Expr, Scalar, call
from circlet.ops.functions import FUNCTIONS
from circlet.ops.opdef import Arrays, OpDef, TensorType
from circlet.ops.operands import operand, present, same_dtypes
from circlet.ops.stablehlo.types import (
    FLOATS,
    INTEGERS,
    KINDS,
    LITERT,
    NUMBERS,
    SIGNED,
    common_shape,
    define,
    forms,
    narrowed,
    same_sizes,
    variables,
)

Numpy = Callable[..., np.ndarray]
_truncated = FUNCTIONS["div_trunc"].numpy


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(a / b if a.dtype.kind == "f" else _truncated(a, b), a.dtype)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.fmod(a, b) if a.dtype.kind == "f" else a - _truncated(a, b) * b, a.dtype)


def _remainder_of(a: Expr, b: Expr) -> Call:
    """What is left of a, with its sign."""
    if a.kind != "f32":
        return a - call("div_trunc", a, b) * b
    rest = call("floor_mod", call("abs", a), call("abs", b))
    return call("select", a < 0, -rest, rest)


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whole numbers to a power below 0 are 0, but for those of 1 and -1."""
    if a.dtype.kind == "f":
        return np.asarray(np.power(a, b), a.dtype)
    is_negative = b < 0
    powers = np.power(a, np.where(is_negative, np.zeros_like(b), b))
    if a.dtype.kind == "u":
        return powers
    inverse = np.where(a == -1, 1 - 2 * (b & 1), np.where(a == 1, 1, 0))
    return np.where(is_negative, inverse, powers).astype(a.dtype)


def _power_of(a: Expr, b: Expr) -> Call:
    if a.kind != "f32":
        raise GraphError("powers of whole numbers have no vector code")
    return call("pow", a, b)


def _maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The second where the first is smaller: of NaN and a number, the first operand."""
    return np.where(a < b, b, a)


def _minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b < a, b, a)


def _shift(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Counts that are negative or as many as there are bits leave 0."""
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0)), 0).astype(a.dtype)


def _shift_of(a: Expr, b: Expr) -> Call:
    inside = call("and", b, ~31).equals(0)
    return call("select", inside, call("shl", a, call("and", b, 31)), a * 0)


def _in_wide(function: Numpy) -> Numpy:
    """A function of floats, of 16 bits through 32 as every such is computed."""

    def compute(x: np.ndarray) -> np.ndarray:
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        return np.asarray(function(wide)).astype(x.dtype)

    return compute


def _cube_root_of(x: Expr) -> Call:
    if x.kind != "f32":
        raise GraphError("cube roots of whole numbers are not defined")
    root = call("pow", call("abs", x), float(np.float32(1 / 3)))
    return call("select", x < 0, -root, root)


def _elementwise(
    kind: str,
    numpy: Numpy,
    expression: Callable[..., Expr],
    types: Sequence[str],
    inputs: int = 2,
    *,
    by_scalar: bool = True,
) -> None:
    """Register a kind; `numpy` computes the types that no expression has.

    `by_scalar` says whether numpy results come from the expression where there is one.
    """

    def scalar(op: Op) -> Scalar:
        dtype = operand(op, 0).dtype
        if dtype not in KINDS:
            raise GraphError(f"{dtype.name} has no vector code", where=op.name)
        return Scalar(narrowed(expression(*variables(op, KINDS[dtype])), dtype))

    def evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
        whole = operand(op, 0).dtype.is_integer and kind == "STABLEHLO_POWER"
        if by_scalar and not whole and operand(op, 0).dtype in KINDS:
            return evaluate_scalar(scalar(op), op, arrays)
        return [numpy(*map(present, arrays))]

    every = tuple(range(inputs))
    define(
        OpDef(
            kind=kind,
            arity=(inputs, inputs),
            required=inputs,
            dtypes=forms(types, inputs),
            infer=lambda op: [TensorType(_type(op), common_shape(op, *every))],
            evaluate=evaluate,
            rules=(same_dtypes(*every), same_sizes(*every)),
            numerics="tolerance" if set(types) <= set(FLOATS) else "exact",
            cost=element_cost,
            scalar=scalar,
        )
    )


def _type(op: Op) -> DType:
    return operand(op, 0).dtype


def _named(name: str) -> Callable[..., Expr]:
    return lambda *operands: call(name, *operands)


_elementwise("STABLEHLO_ADD", np.add, _named("add"), LITERT)
_elementwise("STABLEHLO_SUBTRACT", np.subtract, _named("sub"), NUMBERS)
_elementwise("STABLEHLO_MULTIPLY", np.multiply, _named("mul"), LITERT)
_elementwise(
    "STABLEHLO_DIVIDE",
    _divide,
    lambda a, b: call("div" if a.kind == "f32" else "div_trunc", a, b),
    NUMBERS,
)
_elementwise("STABLEHLO_REMAINDER", _remainder, _remainder_of, NUMBERS)
_elementwise("STABLEHLO_POWER", _power, _power_of, NUMBERS)
_elementwise("STABLEHLO_MAXIMUM", _maximum, lambda a, b: call("select", a < b, b, a), LITERT)
_elementwise("STABLEHLO_MINIMUM", _minimum, lambda a, b: call("select", b < a, b, a), LITERT)
_elementwise("STABLEHLO_AND", np.bitwise_and, _named("and"), (*INTEGERS, "BOOL"))
_elementwise("STABLEHLO_OR", np.bitwise_or, _named("or"), (*INTEGERS, "BOOL"))
_elementwise("STABLEHLO_SHIFT_LEFT", _shift, _shift_of, ("INT8", "INT16", "INT32"))

_elementwise("STABLEHLO_ABS", np.abs, _named("abs"), (*FLOATS, *SIGNED), 1)
_elementwise("STABLEHLO_NEGATE", np.negative, lambda x: -x, NUMBERS, 1)
_elementwise("STABLEHLO_CBRT", _in_wide(np.cbrt), _cube_root_of, FLOATS, 1, by_scalar=False)
for _kind, _function in {
    "STABLEHLO_COSINE": "cos",
    "STABLEHLO_EXPONENTIAL": "exp",
    "STABLEHLO_FLOOR": "floor",
    "STABLEHLO_LOG": "log",
    "STABLEHLO_LOGISTIC": "logistic",
    "STABLEHLO_RSQRT": "rsqrt",
    "STABLEHLO_TANH": "tanh",
}.items():
    _elementwise(_kind, _in_wide(FUNCTIONS[_function].numpy), _named(_function), FLOATS, 1)
