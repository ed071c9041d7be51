"""Element-wise kinds, in every type that ONNX has and numpy too."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import erf
from typing import Any

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.elementwise import kind_of
from circlet.ops.expr import Scalar, Var, call
from circlet.ops.onnx.record import MANY, OnnxAttrs, broadcast, kinds, onnx_kind, same
from circlet.ops.operands import operand

Array = np.ndarray
_WHOLE = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8, DType.UINT16})
_erf = np.vectorize(erf, otypes=[np.float64])


def _real(function: Callable[[Array], Array]) -> Callable[..., Array]:
    """A function of real numbers, computed in the type of its operand, but 32 bits at least."""

    def run(attrs: OnnxAttrs, x: Array, *rest: Any) -> Array:
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        return np.asarray(function(wide)).astype(x.dtype)

    return run


def _plain(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda attrs, x, *rest: function(x)


def _pair(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda attrs, x, y, *rest: function(x, y)


def _many(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda attrs, *arrays: reduce(function, [a for a in arrays if a is not None])


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


kinds(
    {
        "Acos": _real(np.arccos),
        "Acosh": _real(np.arccosh),
        "Asin": _real(np.arcsin),
        "Asinh": _real(np.arcsinh),
        "Atan": _real(np.arctan),
        "Atanh": _real(np.arctanh),
        "Cosh": _real(np.cosh),
        "Sinh": _real(np.sinh),
        "Tan": _real(np.tan),
        "Cos": _real(np.cos),
        "Sin": _real(np.sin),
        "Exp": _real(np.exp),
        "Log": _real(np.log),
        "Sqrt": _real(np.sqrt),
        "Tanh": _real(np.tanh),
        "Sigmoid": _real(_sigmoid),
        "Softplus": _real(_softplus),
        "Ceil": _plain(np.ceil),
        "Floor": _plain(np.floor),
        "Round": _plain(np.round),
        "Abs": _plain(np.abs),
        "Neg": _plain(np.negative),
        "Sign": _plain(np.sign),
        "Not": _plain(np.logical_not),
        "BitwiseNot": _plain(np.invert),
        "IsNaN": _plain(np.isnan),
        "Relu": _plain(lambda x: np.maximum(x, 0)),
        "Reciprocal": _plain(lambda x: 1 / x),
        "Softsign": _real(lambda x: x / (1 + np.abs(x))),
    },
    infer=same,
)


def _divided(x: Array, y: Array) -> Array:
    """A quotient; of integers towards zero, as C has it."""
    if not np.issubdtype(x.dtype, np.integer):
        return np.asarray(x / y)
    if not np.all(y):
        raise GraphError("an integer is divided by zero")
    quotient = np.floor_divide(x, y)
    inexact = (quotient * y != x) & ((x < 0) != (y < 0))
    return np.asarray(quotient + inexact.astype(x.dtype))


def _quotient_scalar(op: Op) -> Scalar:
    """Of integers, unsigned ones up to 16 bits; 0 where the divisor is 0: no run looks for it."""
    if operand(op, 0).dtype not in _WHOLE:
        raise GraphError("such elements have no expression", where=op.name)
    kind = kind_of(op)
    return Scalar(call("div_trunc", Var(0, kind), Var(1, kind)))


onnx_kind("Div", _pair(_divided), infer=broadcast, inputs=(2, 2), scalar=_quotient_scalar)


def _raised(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        if np.issubdtype(x.dtype, np.integer) and not np.issubdtype(y.dtype, np.integer):
            return np.asarray(np.power(x.astype(np.float64), y).astype(x.dtype))
        if np.issubdtype(y.dtype, np.integer) and np.any(y < 0):
            return np.asarray(np.power(x.astype(np.float64), y).astype(x.dtype))
        return np.asarray(np.power(x, y).astype(x.dtype))


kinds(
    {
        "Add": _pair(np.add),
        "Sub": _pair(np.subtract),
        "Mul": _pair(np.multiply),
        "Pow": _pair(_raised),
        "And": _pair(np.logical_and),
        "Or": _pair(np.logical_or),
        "Xor": _pair(np.logical_xor),
        "Equal": _pair(np.equal),
        "Less": _pair(np.less),
        "Greater": _pair(np.greater),
        "LessOrEqual": _pair(np.less_equal),
        "GreaterOrEqual": _pair(np.greater_equal),
        "BitwiseAnd": _pair(np.bitwise_and),
        "BitwiseOr": _pair(np.bitwise_or),
        "BitwiseXor": _pair(np.bitwise_xor),
        "Mod": lambda attrs, x, y: np.fmod(x, y) if attrs.get("fmod", 0) else np.mod(x, y),
    },
    infer=broadcast,
    inputs=(2, 2),
)


def _prelu(attrs: OnnxAttrs, x: Array, slope: Array) -> Array:
    """Slopes broadcast; a list as long as axis 1, which does not, has one for each channel."""
    if slope.ndim == 1 and x.ndim > 1 and len(slope) not in (1, x.shape[-1]):
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return np.where(x < 0, x * slope, x)


onnx_kind("PRelu", _prelu, infer=same, inputs=(2, 2))
kinds(
    {
        "Max": _many(np.maximum),
        "Min": _many(np.minimum),
        "Sum": _many(np.add),
        "Mean": lambda attrs, *arrays: (
            _many(np.add)(attrs, *arrays) / sum(a is not None for a in arrays)
        ),
    },
    infer=broadcast,
    inputs=(1, MANY),
)
onnx_kind(
    "Where",
    lambda attrs, chosen, x, y: np.where(chosen, x, y),
    infer=broadcast,
    inputs=(3, 3),
)


def _shifted(attrs: OnnxAttrs, x: Array, by: Array) -> Array:
    function = np.left_shift if attrs.get("direction") == "LEFT" else np.right_shift
    return function(x, by)


onnx_kind("BitShift", _shifted, infer=broadcast, inputs=(2, 2))


def _is_infinite(attrs: OnnxAttrs, x: Array) -> Array:
    up, down = attrs.get("detect_positive", 1), attrs.get("detect_negative", 1)
    return (np.isposinf(x) & bool(up)) | (np.isneginf(x) & bool(down))


def _clipped(attrs: OnnxAttrs, x: Array, low: Any = None, high: Any = None) -> Array:
    low = attrs.get("min") if low is None else low
    high = attrs.get("max") if high is None else high
    x = x if low is None else np.maximum(x, np.asarray(low, x.dtype))
    return x if high is None else np.minimum(x, np.asarray(high, x.dtype))


onnx_kind("Clip", _clipped, infer=same, inputs=(1, 3))


def _elu(attrs: OnnxAttrs, x: Array) -> Array:
    return np.where(x < 0, attrs.get("alpha", 1.0) * np.expm1(np.minimum(x, 0)), x)


def _selu(attrs: OnnxAttrs, x: Array) -> Array:
    alpha, gamma = attrs.get("alpha", 1.6732632), attrs.get("gamma", 1.0507010)
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _hard_sigmoid(attrs: OnnxAttrs, x: Array) -> Array:
    return np.clip(x * attrs.get("alpha", 0.2) + attrs.get("beta", 0.5), 0, 1)


def _gelu(attrs: OnnxAttrs, x: Array) -> Array:
    if attrs.get("approximate", "none") == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / np.sqrt(2)))


def _celu(attrs: OnnxAttrs, x: Array) -> Array:
    alpha = attrs.get("alpha", 1.0)
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


def _shrunk(attrs: OnnxAttrs, x: Array) -> Array:
    limit, bias = attrs.get("lambd", 0.5), attrs.get("bias", 0.0)
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0))


kinds(
    {
        "IsInf": _is_infinite,
        "Elu": _elu,
        "Selu": _selu,
        "HardSigmoid": _hard_sigmoid,
        "Gelu": _gelu,
        "Celu": _celu,
        "Shrink": _shrunk,
        "HardSwish": lambda attrs, x: x * np.clip(x / 6 + 0.5, 0, 1),
        "Mish": lambda attrs, x: x * np.tanh(_softplus(x)),
        "Swish": lambda attrs, x: x * _sigmoid(attrs.get("alpha", 1.0) * x),
        "LeakyRelu": lambda attrs, x: np.where(x < 0, attrs.get("alpha", 0.01) * x, x),
        "ThresholdedRelu": lambda attrs, x: np.where(x > attrs.get("alpha", 1.0), x, 0),
        "Identity": lambda attrs, x: x,
    },
    infer=same,
    inputs=(1, 2),
)


def _erf_scalar(op: Op) -> Scalar:
    return Scalar(call("erf", Var(0)))


onnx_kind("Erf", _real(_erf), infer=same, scalar=_erf_scalar)
