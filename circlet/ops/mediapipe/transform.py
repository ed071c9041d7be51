"""TransformTensorBilinear, or TransformTensor in old files: an image seen through a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Op
from circlet.ops import checks
from circlet.ops.guard import look
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import moves_bytes, operand, present
from circlet.words import counted

_CENTRED = 2  # the version from which pixels are squares, whose centres lie at halves


@dataclass(frozen=True)
class TransformTensorAttrs:
    """Rows and columns of the result."""

    output_height: int = 0
    output_width: int = 0


def is_centred(op: Op) -> bool:
    """Whether the pixels of an op's images are squares, whose centres lie at halves."""
    return op.version >= _CENTRED


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Each pixel of the result is looked up where the matrix takes it; outside there is zero.

    Weights are computed in double and sums in float, as the reference kernel does.
    """
    attrs, image = op.attributes(TransformTensorAttrs), present(arrays[0])[0]
    rows = present(arrays[1]).reshape(4, 4)[:2].astype(np.float32)
    if is_centred(op):
        moved = rows[:, 0] * np.float64(0.5) + rows[:, 1] * np.float64(0.5) - 0.5
        rows = np.column_stack([rows[:, :3], (rows[:, 3] + moved).astype(np.float32)])
    made = np.zeros((attrs.output_height, attrs.output_width, image.shape[2]), np.float32)
    columns = np.arange(attrs.output_width, dtype=np.float32)
    for y, row in enumerate(made):
        look()
        x_at, y_at = (
            line[0] * columns + line[1] * np.float32(y) + line[2] * np.float32(0) + line[3]
            for line in rows
        )
        _look_up(image, x_at, y_at, row)
    return [made[None]]


def _look_up(image: np.ndarray, x_at: np.ndarray, y_at: np.ndarray, row: np.ndarray) -> None:
    """Write the pixels at places, each a mean of four, into a row of the result."""
    height, width, _ = image.shape
    inside = (x_at >= 0) & (x_at <= width - 1) & (y_at >= 0) & (y_at <= height - 1)
    x, y = x_at[inside], y_at[inside]
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    right_part, lower_part = (x - np.floor(x))[:, None], (y - np.floor(y))[:, None]
    upper, lower = (
        _between(_pixels(image, at, left), _pixels(image, at, left + 1), right_part)
        for at in (top, top + 1)
    )
    row[inside] = lower_part * lower + (1.0 - lower_part.astype(np.float64)) * upper


def _between(first: np.ndarray, second: np.ndarray, part: np.ndarray) -> np.ndarray:
    mean = (1.0 - part.astype(np.float64)) * first + part * second
    return np.asarray(mean, np.float32)


def _pixels(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Pixels by rows and columns; zero beyond the last."""
    height, width, _ = image.shape
    known = image[np.minimum(y, height - 1), np.minimum(x, width - 1)]
    beyond = (y >= height) | (x >= width)
    return np.where(beyond[:, None], np.float32(0), known)


def _infer(op: Op) -> list[TensorType]:
    attrs = op.attributes(TransformTensorAttrs)
    depth = operand(op, 0).shape[3]
    return [TensorType(DType.FLOAT32, (1, attrs.output_height, attrs.output_width, depth))]


def _cost(op: Op) -> Cost:
    return Cost(bytes=moves_bytes(op).bytes, arithmetic=16 * op.outputs[0].elements)


def takes_one_matrix(index: int) -> Rule:
    """Rule: input `index` is one matrix of 4 rows and 4 columns, whatever its rank."""

    def holds(op: Op) -> bool:
        tensor = operand(op, index)
        return None in tensor.shape or tensor.elements == 16

    return Rule("matrix", holds, "the matrix needs 4 rows and 4 columns")


def takes_one_batch(rank: int) -> Rule:
    """Rule: input 0 has `rank` dimensions, the first of them 1."""

    def holds(op: Op) -> bool:
        shape = operand(op, 0).shape
        return len(shape) == rank and shape[0] in (None, 1)

    return Rule(
        "batch", holds, f"the input needs {counted(rank, 'dimension')}, of which the first is 1"
    )


for _code in ("TransformTensorBilinear", "TransformTensor"):
    register(
        OpDef(
            kind=f"CUSTOM:{_code}",
            attrs=TransformTensorAttrs,
            arity=(2, 2),
            required=2,
            dtypes=("FLOAT32 FLOAT32 -> FLOAT32",),
            infer=_infer,
            evaluate=_evaluate,
            rules=(
                checks.at_least(("output_height", "output_width"), 1),
                takes_one_batch(4),
                checks.not_empty(0),
                takes_one_matrix(1),
            ),
            numerics="tolerance",
            cost=_cost,
        )
    )
