"""STABLEHLO_SORT: operands put into the order of one of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ops.guard import working
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, moves_bytes
from circlet.ops.operands import operand, present, sizes_agree, when_ranked
from circlet.ops.stablehlo.regions import order_of
from circlet.ops.stablehlo.types import (
    MANY,
    define,
)


@dataclass(frozen=True)
class SortAttrs:
    """The axis to sort along; a graph compares elements."""

    dimension: int = -1
    is_stable: bool = False


def sort_axis(op: Op) -> int:
    """The axis counted from the front."""
    axis = op.attributes(SortAttrs).dimension
    return axis + len(operand(op, 0).shape) if axis < 0 else axis


def _sizes_fit(op: Op) -> bool:
    shapes = [operand(op, index).shape for index in range(len(op.inputs))]
    exists = 0 <= sort_axis(op) < len(shapes[0])
    return exists and all(sizes_agree(shapes[0], shape) for shape in shapes)


def _order(values: np.ndarray, axis: int, falling: bool) -> np.ndarray:
    """Positions in order; equal elements, and NaN behind all, stay as they were."""
    if not falling:
        return np.argsort(values, axis, kind="stable")
    backwards = np.argsort(np.flip(values, axis), axis, kind="stable")
    return values.shape[axis] - 1 - np.flip(backwards, axis)


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    arrays, found = [*map(present, inputs)], order_of(op)
    if found is None or len({array.shape for array in arrays}) != 1:
        raise GraphError("the operands of a sort do not fit each other", where=op.name)
    (key, direction), axis = found, sort_axis(op)
    with working(2 * 8 * arrays[0].size, op, "the positions that it sorts"):
        order = _order(arrays[key], axis, direction.startswith("G"))
        return [np.take_along_axis(array, order, axis) for array in arrays]


def _cost(op: Op) -> Cost:
    """Comparisons of a sort, twice over."""
    source = operand(op, 0)
    depth = max(1, source.static_shape[sort_axis(op)]).bit_length()
    return Cost(bytes=moves_bytes(op).bytes, operations=2 * source.elements * depth)


define(
    OpDef(
        kind="STABLEHLO_SORT",
        attrs=SortAttrs,
        arity=(1, MANY),
        outputs=None,
        dtypes=("* -> *",),
        infer=lambda op: [TensorType(t.dtype, t.shape) for t in op.inputs if t is not None],
        evaluate=_evaluate,
        rules=(
            Rule("present", lambda op: None not in op.inputs, "no operand may be omitted"),
            when_ranked("sizes", _sizes_fit, "operands must have equal sizes, and the axis exist"),
            Rule(
                "comparator",
                lambda op: order_of(op) is not None,
                "the comparator must be one comparison, less or greater, of both of a pair",
            ),
        ),
        cost=_cost,
        element_regions=True,
    )
)
