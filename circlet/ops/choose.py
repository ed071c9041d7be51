"""Ops that choose by a condition: SELECT, SELECT_V2, WHERE."""

from __future__ import annotations

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape
from circlet.ops.elementwise import broadcast_shape
from circlet.ops.opdef import Arrays, OpDef, QuantRule, TensorType, register
from circlet.ops.operands import (
    infer_ranked,
    operand,
    present,
    same_dtypes,
    sizes_agree,
    when_ranked,
)


def _infer_select(op: Op) -> list[TensorType]:
    first = operand(op, 1)
    return [TensorType(first.dtype, first.shape)]


def _select_fits(op: Op) -> bool:
    condition, first, second = (operand(op, index).shape for index in range(3))
    return sizes_agree(first, second) and (
        sizes_agree(condition, first) or _by_rows(condition, first)
    )


def _by_rows(condition: Shape, data: Shape) -> bool:
    """Whether a SELECT's condition is one element for all, or one per row of the data."""
    if not condition:
        return True
    return len(condition) == 1 and bool(data) and sizes_agree(condition, data[:1])


def _evaluate_select(op: Op, inputs: Arrays) -> list[np.ndarray]:
    condition, first, second = (present(array) for array in inputs)
    fits = condition.shape == first.shape or _by_rows(condition.shape, first.shape)
    if first.shape != second.shape or not fits:
        why = f"{condition.shape}, {first.shape}, {second.shape}"
        raise GraphError("SELECT's operands differ in size", where=op.name, why=why)
    if condition.ndim == 1 and first.ndim > 1:
        condition = condition.reshape(-1, *(1,) * (first.ndim - 1))
    return [np.where(condition, first, second)]


register(
    OpDef(
        kind="SELECT",
        arity=(3, 3),
        required=3,
        dtypes=("BOOL * * -> *",),
        infer=infer_ranked(_infer_select),
        evaluate=_evaluate_select,
        rules=(
            same_dtypes(1, 2),
            when_ranked("sizes", _select_fits, "all sizes must be equal, or one per row"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


def _spread(op: Op) -> Shape | None:
    condition, first, second = (operand(op, index).shape for index in range(3))
    pair = broadcast_shape(first, second)
    return None if pair is None else broadcast_shape(condition, pair)


def _infer_select_v2(op: Op) -> list[TensorType]:
    shape = _spread(op)
    if shape is None:
        raise GraphError("SELECT_V2's operands do not broadcast", where=op.name)
    return [TensorType(operand(op, 1).dtype, shape)]


def _evaluate_select_v2(op: Op, inputs: Arrays) -> list[np.ndarray]:
    condition, first, second = (present(array) for array in inputs)
    try:
        return [np.where(condition, first, second)]
    except ValueError as error:
        raise GraphError(
            "SELECT_V2's operands do not broadcast", where=op.name, why=str(error)
        ) from None


register(
    OpDef(
        kind="SELECT_V2",
        arity=(3, 3),
        required=3,
        dtypes=("BOOL * * -> *",),
        infer=infer_ranked(_infer_select_v2),
        evaluate=_evaluate_select_v2,
        rules=(
            same_dtypes(1, 2),
            when_ranked(
                "broadcast", lambda op: _spread(op) is not None, "sizes must be equal or 1"
            ),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


def _infer_where(op: Op) -> list[TensorType]:
    return [TensorType(DType.INT64, (None, len(operand(op, 0).shape)))]


def _evaluate_where(op: Op, inputs: Arrays) -> list[np.ndarray]:
    return [np.argwhere(present(inputs[0])).astype(np.int64)]


register(
    OpDef(
        kind="WHERE",
        arity=(1, 1),
        dtypes=tuple(
            f"{name} -> INT64"
            for name in ("BOOL", "FLOAT32", "INT64", "INT32", "INT8", "UINT8", "UINT32")
        ),
        infer=infer_ranked(_infer_where),
        evaluate=_evaluate_where,
    )
)
