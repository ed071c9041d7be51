"""StableHLO's CLAMP, COMPARE, CONVERT and SELECT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Tensor
from circlet.ops.checks import one_of
from circlet.ops.elementwise import element_cost
from circlet.ops.expr import Scalar, call
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType
from circlet.ops.operands import (
    operand,
    present,
    same_dtypes,
    sizes_agree,
    when_ranked,
)
from circlet.ops.quantize import truncated
from circlet.ops.stablehlo.types import (
    KINDS,
    LITERT,
    NUMBERS,
    common_shape,
    define,
    forms,
    same_sizes,
    variables,
)


def _bounds_fit(op: Op) -> bool:
    """Each bound is one element, or one for each element."""
    value = operand(op, 1).shape
    return all(_single_or(value, operand(op, index)) for index in (0, 2))


def _single_or(shape: tuple[int | None, ...], tensor: Tensor) -> bool:
    return tensor.shape == () or sizes_agree(tensor.shape, shape)


def _clamp(op: Op) -> Scalar:
    dtype = operand(op, 1).dtype
    if dtype not in KINDS:
        raise GraphError(f"{dtype.name} has no vector code", where=op.name)
    low, value, high = variables(op, KINDS[dtype])
    return Scalar(call("min", call("max", value, low), high))


def _evaluate_clamp(op: Op, inputs: Arrays) -> list[np.ndarray]:
    low, value, high = map(present, inputs)
    return [np.minimum(np.maximum(value, low), high)]


define(
    OpDef(
        kind="STABLEHLO_CLAMP",
        arity=(3, 3),
        required=3,
        dtypes=forms(NUMBERS, 3),
        infer=lambda op: [TensorType(operand(op, 1).dtype, operand(op, 1).shape)],
        evaluate=_evaluate_clamp,
        rules=(
            same_dtypes(0, 1, 2),
            when_ranked("bounds", _bounds_fit, "a bound must be one element, or as many as values"),
        ),
        cost=element_cost,
        scalar=_clamp,
    )
)

_DIRECTIONS = {"EQ": "eq", "NE": "ne", "GE": "ge", "GT": "gt", "LE": "le", "LT": "lt"}
_NUMPY = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}
_TYPES = ("NOTYPE", "FLOAT", "FLOAT_TOTAL_ORDER", "SIGNED", "UNSIGNED")


@dataclass(frozen=True)
class CompareAttrs:
    """How operands are compared, and as what: only FLOAT_TOTAL_ORDER differs from the types."""

    comparison_direction: str = "EQ"
    compare_type: str = "NOTYPE"


def _in_total_order(values: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of floats: -NaN, -inf, .. -0, 0, .. inf, NaN."""
    whole = values.view(f"i{values.dtype.itemsize}")
    return np.where(whole < 0, whole ^ np.iinfo(whole.dtype).max, whole)


def _is_total(op: Op) -> bool:
    return op.attributes(CompareAttrs).compare_type == "FLOAT_TOTAL_ORDER"


def _compare(op: Op) -> Scalar:
    dtype = operand(op, 0).dtype
    if dtype not in KINDS or _is_total(op):
        raise GraphError(f"{dtype.name} has no vector code for this comparison", where=op.name)
    direction = op.attributes(CompareAttrs).comparison_direction
    return Scalar(call(_DIRECTIONS[direction], *variables(op, KINDS[dtype])))


def _evaluate_compare(op: Op, inputs: Arrays) -> list[np.ndarray]:
    pair = [present(array) for array in inputs]
    if _is_total(op):
        pair = [_in_total_order(values) for values in pair]
    return [np.asarray(_NUMPY[op.attributes(CompareAttrs).comparison_direction](*pair))]


define(
    OpDef(
        kind="STABLEHLO_COMPARE",
        attrs=CompareAttrs,
        arity=(2, 2),
        required=2,
        dtypes=forms(LITERT, 2, "BOOL"),
        infer=lambda op: [TensorType(DType.BOOL, common_shape(op, 0, 1))],
        evaluate=_evaluate_compare,
        rules=(
            same_dtypes(0, 1),
            same_sizes(0, 1),
            one_of("comparison_direction", tuple(_DIRECTIONS)),
            one_of("compare_type", _TYPES),
            Rule(
                "total-order",
                lambda op: not _is_total(op) or operand(op, 0).dtype.is_float,
                "only floats have a total order of their own",
            ),
        ),
        cost=element_cost,
        scalar=_compare,
    )
)


def _evaluate_convert(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, result = present(inputs[0]), op.outputs[0].dtype
    if values.dtype.kind == "f" and result.is_integer:
        return [truncated(values, result)]
    return [values.astype(result.numpy)]


define(
    OpDef(
        kind="STABLEHLO_CONVERT",
        arity=(1, 1),
        dtypes=tuple(f"{given} -> {wanted}" for given in LITERT for wanted in LITERT),
        infer=lambda op: [TensorType(op.outputs[0].dtype, operand(op, 0).shape)],
        evaluate=_evaluate_convert,
        cost=element_cost,
    )
)


def _evaluate_select(op: Op, inputs: Arrays) -> list[np.ndarray]:
    condition, first, second = map(present, inputs)
    return [np.where(condition, first, second)]


def _condition_fits(op: Op) -> bool:
    condition = operand(op, 0).shape
    return condition == () or sizes_agree(condition, operand(op, 1).shape)


define(
    OpDef(
        kind="STABLEHLO_SELECT",
        arity=(3, 3),
        required=3,
        dtypes=tuple(f"BOOL {name} {name} -> {name}" for name in LITERT),
        infer=lambda op: [TensorType(operand(op, 1).dtype, common_shape(op, 1, 2))],
        evaluate=_evaluate_select,
        rules=(
            same_dtypes(1, 2),
            same_sizes(1, 2),
            when_ranked("condition", _condition_fits, "the condition must be one, or one for each"),
        ),
        cost=element_cost,
    )
)
