"""The table of scalar functions: what each computes in numpy and how it is spelled in C."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.ops.requantize import rounding_divide_by_pot, saturating_rounding_doubling_high_mul

Array = npt.NDArray[np.generic]

NUMPY_TYPES: dict[str, np.dtype[np.generic]] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "mask": np.dtype(np.bool_),
}

FLOAT_KINDS = frozenset({"f32", "f64"})


@dataclass(frozen=True)
class Function:
    """One function of the expression language.

    Attributes:
        arity: Number of arguments.
        numpy: Its value over arrays of its argument kinds.
        c: C template; `{0}` is the first argument, `{kind}` the kind of the last one; `{wide}` is
            "_f64" where that is "f64", and empty otherwise.
        result: Kind of the result, "" for that of the last argument.
    """

    arity: int
    numpy: Callable[..., Array]
    c: str
    result: str = ""


def _logistic(x: npt.NDArray[np.float32]) -> Array:
    """1 / (1 + exp(-x)), computed on the side where exp does not overflow."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e)), np.float32)


_ERF = np.vectorize(math.erf, otypes=[np.float64])


def _erf(x: npt.NDArray[np.float32]) -> Array:
    return np.asarray(_ERF(x), np.float32) if x.size else x


def round_half_away(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """C's round: adding 0.5 in float32 would move 0.49999997 up."""
    whole = np.trunc(x)
    away = np.abs(x - whole) >= np.float32(0.5)
    return np.asarray(whole + np.copysign(away.astype(np.float32), x), np.float32)


def _nearest_ratio(
    x: npt.NDArray[np.float32], scale: Array, low: Array, high: Array
) -> npt.NDArray[np.int32]:
    """x / scale rounded half away from zero, within low..high; 0 for NaN."""
    ratio = np.asarray(np.divide(x, scale), np.float32)
    whole = np.nan_to_num(round_half_away(ratio), nan=0.0)
    return np.clip(whole, low, high).astype(np.int32)


def floor_divide(a: Array, b: Array) -> Array:
    """floor(a / b): in double for floats, 0 for whole numbers over 0."""
    if a.dtype.kind != "f":
        return np.floor_divide(a, b)
    return np.floor(np.divide(a, b, dtype=np.float64)).astype(np.float32)


def _floor_modulo(a: Array, b: Array) -> Array:
    """What is left of a with the sign of b; exact for floats."""
    if a.dtype.kind != "f":
        return np.mod(a, b)
    rest = np.fmod(a, b)
    opposite = (rest != 0) & (np.signbit(rest) != np.signbit(b))
    return np.asarray(np.where(opposite, rest + b, rest), np.float32)


def _truncated_divide(a: Array, b: Array) -> Array:
    """Quotient of whole numbers toward zero; 0 over 0."""
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & (b != 0)
    return np.asarray(quotient + (inexact & (quotient < 0)), a.dtype)


def _power(a: Array, b: Array) -> Array:
    """a to the power b; of whole numbers 0 where b is negative."""
    if a.dtype.kind == "f":
        return np.asarray(np.power(a, b))
    exponents = b.astype(np.int64)
    powers = np.power(a, np.maximum(exponents, 0).astype(a.dtype))
    return np.asarray(np.where(exponents < 0, 0, powers), a.dtype)


def _int32(compute: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: compute(a, b).astype(np.int32)


def _infix(symbol: str, compute: Callable[..., Array]) -> Function:
    return Function(2, compute, f"({{0}} {symbol} {{1}})")


def _compared(symbol: str, compute: Callable[..., Array]) -> Function:
    return Function(2, compute, f"v_mask_{{kind}}({{0}} {symbol} {{1}})", "mask")


def _named(name: str, arity: int, compute: Callable[..., Array], result: str = "") -> Function:
    arguments = ", ".join(f"{{{i}}}" for i in range(arity))
    return Function(arity, compute, f"v_{name}({arguments})", result)


def _of_floats(name: str, compute: Callable[..., Array]) -> Function:
    return Function(1, compute, f"v_{name}{{wide}}({{0}})")


def _typed(name: str, arity: int, compute: Callable[..., Array]) -> Function:
    arguments = ", ".join(f"{{{i}}}" for i in range(arity))
    return Function(arity, compute, f"v_{name}_{{kind}}({arguments})")


FUNCTIONS: dict[str, Function] = {
    "add": _infix("+", np.add),
    "sub": _infix("-", np.subtract),
    "mul": _infix("*", np.multiply),
    "div": _infix("/", np.divide),
    "neg": Function(1, np.negative, "(-{0})"),
    "lt": _compared("<", np.less),
    "le": _compared("<=", np.less_equal),
    "gt": _compared(">", np.greater),
    "ge": _compared(">=", np.greater_equal),
    "eq": _compared("==", np.equal),
    "ne": _compared("!=", np.not_equal),
    "select": _typed("select", 3, np.where),
    "min": _typed("min", 2, np.minimum),
    "max": _typed("max", 2, np.maximum),
    "abs": _typed("abs", 1, np.abs),
    "exp": _named("exp", 1, np.exp),
    "expm1": _named("expm1", 1, np.expm1),
    "log": _named("log", 1, np.log),
    "tanh": _named("tanh", 1, np.tanh),
    "logistic": _named("logistic", 1, _logistic),
    "erf": _named("erf", 1, _erf),
    "sqrt": _of_floats("sqrt", np.sqrt),
    "divided": _named("divided", 3, lambda x, inverse, by: x / by),
    "inverse": _named("inverse", 1, lambda by: np.float32(1) / by),
    "rsqrt": _named("rsqrt", 1, lambda x: np.float32(1) / np.sqrt(x)),
    "floor": _of_floats("floor", np.floor),
    "ceil": _of_floats("ceil", np.ceil),
    "round_half_even": _of_floats("round_even", np.rint),
    "sin": _named("sin", 1, np.sin),
    "cos": _named("cos", 1, np.cos),
    "atan2": _named("atan2", 2, np.arctan2),
    "pow": _typed("pow", 2, _power),
    "div_trunc": _typed("div_trunc", 2, _truncated_divide),
    "floor_div": _typed("floor_div", 2, floor_divide),
    "floor_mod": _typed("floor_mod", 2, _floor_modulo),
    "round_half_away": _named("round_half_away", 1, round_half_away),
    "nearest_ratio": _named("nearest_ratio", 4, _nearest_ratio, "i32"),
    "to_f32": Function(1, lambda x: x.astype(np.float32), "v_to_f32{wide}({0})", "f32"),
    "to_f64": Function(1, lambda x: x.astype(np.float64), "w_of_{kind}({0})", "f64"),
    "to_i32": _named("to_i32", 1, lambda x: x.astype(np.int32), "i32"),
    "low_i32": _named("low_i32", 1, lambda x: x.astype(np.int32), "i32"),
    "to_i64": _named("to_i64", 1, lambda x: x.astype(np.int64), "i64"),
    "srdhm": _named("srdhm", 2, _int32(saturating_rounding_doubling_high_mul)),
    "rdbpot": _named("rdbpot", 2, _int32(rounding_divide_by_pot)),
    "shl": _typed("shl", 2, np.left_shift),
    "shr": _typed("shr", 2, np.right_shift),
    "and": _infix("&", np.bitwise_and),
    "or": _infix("|", np.bitwise_or),
    "xor": _infix("^", np.bitwise_xor),
}
