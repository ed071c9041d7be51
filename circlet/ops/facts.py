"""Ops that state sizes or count: SHAPE, RANK, RANGE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType, register
from circlet.ops.operands import count, infer_ranked, operand, present

_MOST_VALUES = 1 << 29


@dataclass(frozen=True)
class ShapeAttrs:
    """Type of the sizes."""

    out_type: str = "INT32"


def _infer_shape(op: Op) -> list[TensorType]:
    return [TensorType(op.outputs[0].dtype, (len(operand(op, 0).shape),))]


def _evaluate_shape(op: Op, inputs: Arrays) -> list[np.ndarray]:
    return [np.array(present(inputs[0]).shape, op.outputs[0].dtype.numpy)]


register(
    OpDef(
        kind="SHAPE",
        attrs=ShapeAttrs,
        arity=(1, 1),
        dtypes=("* -> INT32", "* -> INT64"),
        infer=infer_ranked(_infer_shape),
        evaluate=_evaluate_shape,
        rules=(
            Rule(
                "type",
                lambda op: op.attributes(ShapeAttrs).out_type == op.outputs[0].dtype.name,
                "out_type must be the output's type",
            ),
        ),
    )
)

register(
    OpDef(
        kind="RANK",
        arity=(1, 1),
        dtypes=("* -> INT32",),
        infer=lambda op: [TensorType(DType.INT32, ())],
        evaluate=lambda op, inputs: [np.array(present(inputs[0]).ndim, np.int32)],
    )
)


def _range_count(op: Op, first: np.ndarray, limit: np.ndarray, step: np.ndarray) -> int:
    """How many elements a RANGE has."""
    if any(array.size != 1 for array in (first, limit, step)):
        raise GraphError("RANGE needs single values", where=op.name)
    begin, end, by = (array.reshape(-1)[0].item() for array in (first, limit, step))
    if by == 0 or (end - begin) * by < 0 or not np.isfinite([begin, end, by]).all():
        why = f"from {begin} to {end} by {by}"
        raise GraphError("RANGE never reaches its end", where=op.name, why=why)
    if first.dtype.kind != "f":
        return int(-((begin - end) // by))
    with np.errstate(over="ignore"):
        steps = np.abs((np.float32(end) - np.float32(begin)) / np.float32(by))
    return int(np.ceil(steps)) if np.isfinite(steps) else _MOST_VALUES + 1


def _infer_range(op: Op) -> list[TensorType]:
    values = [operand(op, index).data for index in range(3)]
    first, limit, step = values
    if first is None or limit is None or step is None:
        return [TensorType(op.outputs[0].dtype, (None,))]
    return [TensorType(op.outputs[0].dtype, (_range_count(op, first, limit, step),))]


def _single_values(op: Op) -> bool:
    tensors = [operand(op, index) for index in range(3)]
    return all(count(tensor.shape) in (1, None) for tensor in tensors)


def _evaluate_range(op: Op, inputs: Arrays) -> list[np.ndarray]:
    """Each element is the one before plus the step, as the reference kernel adds."""
    first, limit, step = (present(array) for array in inputs)
    total = _range_count(op, first, limit, step)
    if total > _MOST_VALUES:
        raise GraphError("RANGE has too many values", where=op.name, why=f"{total}")
    steps = np.full(total, step.reshape(-1)[0], first.dtype)
    steps[:1] = first.reshape(-1)[0]
    return [np.cumsum(steps, dtype=first.dtype)]


register(
    OpDef(
        kind="RANGE",
        arity=(3, 3),
        required=3,
        dtypes=tuple(f"{name} {name} {name} -> {name}" for name in ("INT32", "INT64", "FLOAT32")),
        infer=_infer_range,
        evaluate=_evaluate_range,
        rules=(Rule("values", _single_values, "start, limit and delta must be single values"),),
    )
)
