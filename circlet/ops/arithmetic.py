"""Element-wise arithmetic: ADD, SUB, MUL, MAXIMUM, MINIMUM and functions of one operand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import inf, log2

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ops.activation import in_reach, is_quantised, ratio
from circlet.ops.elementwise import activated, binary, kind_of, plain, unary
from circlet.ops.expr import Call, Number, Param, Scalar, Var, call, rescale
from circlet.ops.fixed import (
    activation_params,
    down_params,
    multiplier_params,
    rescale_down,
    stored,
    type_params,
    zero_params,
)
from circlet.ops.opdef import Rule
from circlet.ops.operands import QUANTISED, affine, operand, scale_of
from circlet.ops.requantize import quantize_multiplier

_SQUARE_GUARD_BITS = 7
_GUARD_BITS = {DType.INT8: 20, DType.UINT8: 20, DType.INT16: 15}
_LEAST_SCALE = 2.0**-120  # trained with quantisation, products that are always 0 get 2**-116


@dataclass(frozen=True)
class AddAttrs:
    """ADD's attributes."""

    activation: str = "NONE"
    pot_scale_int16: bool = True


@dataclass(frozen=True)
class SubAttrs(AddAttrs):
    """SUB's attributes."""


@dataclass(frozen=True)
class MulAttrs:
    """MUL's attributes."""

    activation: str = "NONE"


def sum_or_difference(function: str) -> Callable[[Op], Scalar]:
    """ADD and SUB: plain, or on a common scale with guard bits when quantised."""

    def build(op: Op) -> Scalar:
        if operand(op, 0).dtype not in QUANTISED:
            kind = kind_of(op)
            return activated(call(function, Var(0, kind), Var(1, kind)), op)
        return Scalar(_common_scale(function), common_scale_params(op))

    return build


@lru_cache(maxsize=4)
def _common_scale(function: str) -> Call:
    total = call(function, _on_common_scale(0), _on_common_scale(1))
    return stored(rescale_down(total, "output"))


def _on_common_scale(index: int) -> Call:
    centred = Var(index, "i32") - Param(f"zero{index}")
    return rescale_down(call("shl", centred, Param("guard")), f"input{index}")


def common_scale_factors(op: Op) -> tuple[float, float, float]:
    """Real factors of both inputs to the common scale, and from it to the output's."""
    first, second = scale_of(operand(op, 0)), scale_of(operand(op, 1))
    common = 2 * max(first, second)
    guard = _GUARD_BITS[op.outputs[0].dtype]
    return first / common, second / common, common / ((1 << guard) * scale_of(op.outputs[0]))


def common_scale_params(op: Op) -> dict[str, Number]:
    """Parameters of a quantised ADD or SUB."""
    first, second, output = common_scale_factors(op)
    return {
        "guard": _GUARD_BITS[op.outputs[0].dtype],
        **zero_params(op),
        **down_params("input0", first),
        **down_params("input1", second),
        **down_params("output", output),
        **activation_params(op),
    }


def product_factor(op: Op) -> float:
    """Real factor of a quantised product to the output's scale, formed in float32."""
    first, second = np.float32(scale_of(operand(op, 0))), np.float32(scale_of(operand(op, 1)))
    with np.errstate(over="ignore", under="ignore"):
        return float(first * second / np.float32(scale_of(op.outputs[0])))


def product(op: Op) -> Scalar:
    """MUL: plain, or the exact product requantised once."""
    if operand(op, 0).dtype not in QUANTISED:
        kind = kind_of(op)
        return activated(Var(0, kind) * Var(1, kind), op)
    params = {
        **zero_params(op),
        **multiplier_params("output", product_factor(op)),
        **activation_params(op),
    }
    return Scalar(_exact_product(), params)


@lru_cache(maxsize=1)
def _exact_product() -> Call:
    exact = (Var(0, "i32") - Param("zero0")) * (Var(1, "i32") - Param("zero1"))
    return stored(rescale(exact, "output"))


def _sum_factor_in_reach(op: Op) -> bool:
    if op.outputs[0].dtype not in QUANTISED:
        return True
    return quantize_multiplier(common_scale_factors(op)[2])[1] <= 0


def _product_factor_in_reach(op: Op) -> bool:
    return op.outputs[0].dtype not in QUANTISED or product_factor(op) < inf


def _is_power_of_two(tensor: Tensor) -> bool:
    return log2(scale_of(tensor)).is_integer()


def _general_int16(op: Op) -> bool:
    """Whether an int16 sum takes the general path, not the power-of-two one."""
    tensors = [operand(op, 0), operand(op, 1), op.outputs[0]]
    if tensors[0].dtype != DType.INT16 or not op.attributes(AddAttrs).pot_scale_int16:
        return True
    return not all(_is_power_of_two(tensor) for tensor in tensors)


_SUM_RULES = (
    affine(0, 1, least=_LEAST_SCALE),
    Rule("output-scale", _sum_factor_in_reach, "the output scale is too small", sized=False),
    Rule("int16-form", _general_int16, "int16 sums on power-of-two scales are not supported"),
)
_PRODUCT_RULES = (
    affine(0, 1, least=_LEAST_SCALE),
    Rule("output-scale", _product_factor_in_reach, "the output scale is too small", sized=False),
)
_SUM_TYPES = "FLOAT32 FLOAT64 INT8 UINT8 INT16 INT32 INT64"
_ORDERED_TYPES = "FLOAT32 FLOAT64 INT8 UINT8 INT16 INT32 INT64"

binary(
    "ADD",
    sum_or_difference("add"),
    _SUM_TYPES,
    attrs=AddAttrs,
    rules=_SUM_RULES,
)
binary(
    "SUB",
    sum_or_difference("sub"),
    _SUM_TYPES,
    attrs=SubAttrs,
    rules=_SUM_RULES,
)
binary(
    "MUL",
    product,
    _SUM_TYPES,
    attrs=MulAttrs,
    rules=_PRODUCT_RULES,
)


binary(
    "MAXIMUM",
    plain(lambda a, b: call("max", a, b)),
    _ORDERED_TYPES,
)
binary(
    "MINIMUM",
    plain(lambda a, b: call("min", a, b)),
    _ORDERED_TYPES,
)


def squared_difference_factors(op: Op) -> tuple[float, float, float]:
    """Real factors of both inputs to the common scale, and from its square to the output's."""
    first, second, _ = common_scale_factors(op)
    common = 2 * max(scale_of(operand(op, 0)), scale_of(operand(op, 1)))
    squared = common * common / ((1 << 2 * _SQUARE_GUARD_BITS) * scale_of(op.outputs[0]))
    return first, second, squared


def squared_difference(op: Op) -> Scalar:
    """SQUARED_DIFFERENCE: plain, or on a common scale with guard bits when quantised."""
    if operand(op, 0).dtype not in QUANTISED:
        difference = Var(0, kind_of(op)) - Var(1, kind_of(op))
        return Scalar(difference * difference)
    first, second, output = squared_difference_factors(op)
    params = {
        "guard": _SQUARE_GUARD_BITS,
        **zero_params(op),
        **down_params("input0", first),
        **down_params("input1", second),
        **multiplier_params("output", output),
        **type_params(op),
    }
    return Scalar(_stored_square(), params)


@lru_cache(maxsize=1)
def _stored_square() -> Call:
    difference = _on_common_scale(0) - _on_common_scale(1)
    return stored(rescale(difference * difference, "output"))


def _square_in_reach(op: Op) -> bool:
    return op.outputs[0].dtype not in QUANTISED or squared_difference_factors(op)[2] < 1 << 30


binary(
    "SQUARED_DIFFERENCE",
    squared_difference,
    "FLOAT32 FLOAT64 INT8 INT32",
    rules=(
        affine(0, 1),
        Rule("output-scale", _square_in_reach, "the output scale is too small", sized=False),
    ),
)


def magnitude(op: Op) -> Scalar:
    """ABS: plain, or rescaled to the output's scale when quantised."""
    if not is_quantised(op):
        return plain(lambda x: call("abs", x))(op)
    centred = call("abs", Var(0, "i32") - Param("zero0"))
    same = scale_of(operand(op, 0)) == scale_of(op.outputs[0])
    value = centred if same else rescale(centred, "output")
    factor = {} if same else multiplier_params("output", ratio(op))
    return Scalar(stored(value), {**zero_params(op), **factor, **type_params(op)})


unary(
    "ABS",
    magnitude,
    "FLOAT32 FLOAT64 INT32 INT8 INT16",
    rules=(affine(0), in_reach()),
)
unary("NEG", plain(lambda x: -x), "FLOAT32 FLOAT64 INT32 INT64")
unary("FLOOR", plain(lambda x: call("floor", x)), "FLOAT32 FLOAT64", numerics="exact")
unary("SQUARE", plain(lambda x: x * x), "FLOAT32 FLOAT64")
