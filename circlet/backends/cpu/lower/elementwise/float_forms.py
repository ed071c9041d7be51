"""Quantised element-wise operators in floats, where that is exact for all 8-bit operands.

Records rescale by mantissas of 31 bits and round twice, in 64 bits:

    clamp(rdbpot(srdhm(x << left, multiplier), right) + zero)
        ->  clamp(round(x * factor + zero))                       rounded once
        ->  clamp(round(round(x * factor) * 2^-right) + zero)     or twice

Products of two bytes are exact in floats. One rounding gives the same as two where few products end
close to a half; else both are made. All operands, 65536 pairs at most, are compared; where one
differs in either form the record's expression stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from circlet.ir import DType, Op
from circlet.ops.expr import Call, Const, Expr, Number, Param, Scalar, Var, call, clamp, evaluate
from circlet.ops.lut import EIGHT_BIT

_MANTISSA_BITS = 31
_SAME = frozenset({"add", "sub", "mul", "neg", "ge", "gt", "le", "lt", "select", "min", "max"})
_NUDGES = tuple(sign * 2.0**-power for power in (14, 12, 10) for sign in (1, -1))
_STRETCHES = tuple(sign * 2.0**-power for power in (23, 22, 21, 24) for sign in (1, -1))
_MOST_OPERANDS = 2
_AWAY = 1 + 2.0**-20  # rounds halves away from zero

_Params = tuple[tuple[str, Number], ...]


def in_floats(op: Op, scalar: Scalar) -> Scalar:
    """The scalar of an op, or one in floats that is equal for all operands."""
    tensors = [tensor for tensor in (*op.inputs, op.outputs[0]) if tensor is not None]
    if len(tensors) > _MOST_OPERANDS + 1 or any(t.dtype not in EIGHT_BIT for t in tensors):
        return scalar
    types = tuple(tensor.dtype for tensor in tensors[:-1])
    params = tuple(sorted(scalar.params.items()))
    found = _float_form(scalar.expr, params, types)
    return scalar if found is None else Scalar(found[0], dict(found[1]))


@lru_cache(maxsize=1024)
def _float_form(
    exact: Expr, params: _Params, types: tuple[DType, ...]
) -> tuple[Expr, _Params] | None:
    """An expression in floats and parameters that equal an exact one for all operands, or None."""
    known, operands = dict(params), _all_operands(types)
    ways = (_in_floats(exact, rescaled) for rescaled in (_once, _twice))
    forms = [form for form in ways if form is not None]
    if not forms or "zero_out" not in known:
        return None
    wanted = evaluate(exact, operands, known)
    for form in forms:
        for nudge, stretch in _variants():
            tried = _float_params(known, nudge, stretch)
            if np.array_equal(evaluate(form, operands, tried), wanted):
                return form, tuple(tried.items())
    return None


def _all_operands(types: tuple[DType, ...]) -> list[np.ndarray]:
    values = np.arange(256, dtype=np.uint8)
    first, *second = (values.view(dtype.numpy) for dtype in types)
    return [first[:, None], *(other[None, :] for other in second)]


def _variants() -> Iterator[tuple[float, float]]:
    """Small changes of the offset, then of factors: one may round the rare ties right."""
    yield 0.0, 0.0
    yield from ((nudge, 0.0) for nudge in _NUDGES)
    yield from ((0.0, stretch) for stretch in _STRETCHES)


def _float_params(known: dict[str, Number], nudge: float, stretch: float) -> dict[str, Number]:
    """Real factors for mantissas and shifts; what else there is as it is."""
    params = {name: float(value) for name, value in known.items()}
    params["zero_out"] = float(np.float32(known["zero_out"] + nudge))
    for name in [name for name in known if name.endswith("_multiplier")]:
        rescaling = name.removesuffix("_multiplier")
        shift = known.get(f"{rescaling}_left", 0) - _MANTISSA_BITS
        factor = known[name] * 2.0**shift * (1 + stretch)
        power = 2.0 ** -known[f"{rescaling}_right"]
        params[rescaling] = float(np.float32(factor * power))
        params[f"{rescaling}_high"] = float(np.float32(factor))
        params[f"{rescaling}_power"] = power * _AWAY
    return params


def _once(value: Expr, name: str) -> Expr:
    return value * Param(name, "f32")


def _twice(value: Expr, name: str) -> Expr:
    high = call("round_half_even", value * Param(f"{name}_high", "f32"))
    return call("round_half_even", high * Param(f"{name}_power", "f32"))


@lru_cache(maxsize=256)
def _in_floats(expr: Expr, rescaled: Callable[[Expr, str], Expr]) -> Expr | None:
    """min(max(value + zero, low), high) over floats, rounded before it is clamped."""
    if not isinstance(expr, Call) or expr.function != "min":
        return None
    inner, high = expr.args
    if not isinstance(inner, Call) or inner.function != "max":
        return None
    value, least, most = (_floats(part, rescaled) for part in (*inner.args, high))
    if value is None or least is None or most is None:
        return None
    if rescaled is _once:
        value = call("round_half_even", value)
    return call("to_i32", clamp(value, least, most))


def _floats(expr: Expr, rescaled: Callable[[Expr, str], Expr]) -> Expr | None:
    """The same over floats, rescaling as products with factors; None where that has no meaning."""
    if isinstance(expr, Var):
        return Var(expr.index)
    if isinstance(expr, Param):
        return Param(expr.name, "f32")
    if isinstance(expr, Const):
        return Const(float(expr.value))
    assert isinstance(expr, Call)
    if expr.function == "rdbpot":
        return _rescaled(expr, rescaled)
    args = [_floats(arg, rescaled) for arg in expr.args]
    if expr.function not in _SAME or None in args:
        return None
    return Call(expr.function, tuple(arg for arg in args if arg is not None))


def _rescaled(expr: Call, rescaled: Callable[[Expr, str], Expr]) -> Expr | None:
    """What `expr.rescale` or `fixed.rescale_down` made, as products."""
    high, right = expr.args
    if not isinstance(right, Param) or not isinstance(high, Call) or high.function != "srdhm":
        return None
    name = right.name.removesuffix("_right")
    if high.args[1] != Param(f"{name}_multiplier"):
        return None
    value = high.args[0]
    if isinstance(value, Call) and value.function == "shl":
        if value.args[1] != Param(f"{name}_left"):
            return None
        value = value.args[0]
    floats = _floats(value, rescaled)
    return None if floats is None else rescaled(floats, name)
