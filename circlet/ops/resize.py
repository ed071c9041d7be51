"""Image resizing: RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.checks import one_of
from circlet.ops.functions import round_half_away
from circlet.ops.opdef import Arrays, Cost, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import infer_ranked, known_ints, operand, present, same_quant, when_ranked

Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]

_UNIT = 1 << 10
_LINEAR = ("asymmetric", "half_pixel", "align_corners")
_ALIGNED = ("align_corners", "half_pixel_align_corners")
_CENTRED = ("half_pixel", "half_pixel_align_corners")


@dataclass(frozen=True)
class ResizeAttrs:
    """Attributes of both kinds.

    Attributes:
        coordinate_transformation: Where in the source an output pixel lies, in ONNX's words, or
            "half_pixel_align_corners": the centres of pixels times the scale of aligned corners,
            which RESIZE_NEAREST_NEIGHBOR alone knows.
    """

    coordinate_transformation: str = "asymmetric"


def _infer(op: Op) -> list[TensorType]:
    source, size = operand(op, 0), known_ints(op.input(1))
    if len(source.shape) != 4:
        raise GraphError(f"{source!r} is no image", where=op.name)
    batch, channels = source.shape[0], source.shape[3]
    height, width = (None, None) if size is None or len(size) != 2 else size
    return [TensorType(source.dtype, (batch, height, width, channels))]


def _is_image(op: Op) -> bool:
    source, size = operand(op, 0), operand(op, 1)
    return len(source.shape) == 4 and size.shape in ((2,), (None,))


def _sizes_positive(op: Op) -> bool:
    size = known_ints(op.input(1))
    return size is None or all(0 < value <= 1 << 20 for value in size)


def _not_empty(op: Op) -> bool:
    return 0 not in operand(op, 0).shape[1:3]


def _aligned(op: Op) -> bool:
    return op.attributes(ResizeAttrs).coordinate_transformation in _ALIGNED


def _centred(op: Op) -> bool:
    return op.attributes(ResizeAttrs).coordinate_transformation in _CENTRED


def _target(op: Op, inputs: Arrays) -> tuple[int, int]:
    source, size = present(inputs[0]), present(inputs[1]).reshape(-1)
    if source.ndim != 4 or 0 in source.shape[1:3] or len(size) != 2 or (size <= 0).any():
        raise GraphError(f"cannot resize {source.shape} to {size.tolist()}", where=op.name)
    return int(size[0]), int(size[1])


def real_samples(op: Op, source: int, result: int) -> tuple[Int64, Int64, Float32]:
    """Lower and upper source index of each output index, and the weight of the upper one."""
    scale = np.float32(source) / np.float32(result)
    if _aligned(op) and result > 1:
        scale = np.float32(source - 1) / np.float32(result - 1)
    position = np.arange(result, dtype=np.float32)
    if _centred(op):
        position = (position + np.float32(0.5)) * scale - np.float32(0.5)
    else:
        position = position * scale
    lower = np.maximum(np.floor(position).astype(np.int64), 0)
    upper = np.minimum(np.ceil(position).astype(np.int64), source - 1)
    return lower, upper, position - lower.astype(np.float32)


def fixed_samples(op: Op, source: int, result: int) -> tuple[Int64, Int64, Int64]:
    """`real_samples` in units of 1/1024, as the int8 kernel computes it."""
    scale = (_UNIT * source + result // 2) // result
    if _aligned(op) and result > 1:
        scale = (_UNIT * (source - 1) + (result - 1) // 2) // (result - 1)
    position = np.arange(result, dtype=np.int64) * scale
    if _centred(op):
        position = position + scale // 2 - _UNIT // 2
    lower = np.maximum(_truncated(position, _UNIT), 0)
    upper = np.minimum(_truncated(position + _UNIT - 1, _UNIT), source - 1)
    return lower, upper, position - lower * _UNIT


def _truncated(values: Int64, divisor: int) -> Int64:
    return np.sign(values) * (np.abs(values) // divisor)


def _evaluate_bilinear(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, target = present(inputs[0]), _target(op, inputs)
    form = _fixed if operand(op, 0).dtype in (DType.INT8, DType.INT16) else _real
    return [form(op, values, target)]


def _corners(
    values: np.ndarray, rows: tuple[Int64, Int64], columns: tuple[Int64, Int64]
) -> list[np.ndarray]:
    """Values at (lower, lower), (upper, lower), (lower, upper), (upper, upper)."""
    return [values[:, row][:, :, column] for column in columns for row in rows]


def _real(op: Op, values: np.ndarray, target: tuple[int, int]) -> np.ndarray:
    """Float32 interpolation in the reference kernel's order, rounded for integers."""
    y0, y1, down = real_samples(op, values.shape[1], target[0])
    x0, x1, right = real_samples(op, values.shape[2], target[1])
    down, right = down[:, None, None], right[:, None]
    up, left = np.float32(1) - down, np.float32(1) - right
    corners = _corners(values.astype(np.float32), (y0, y1), (x0, x1))
    total = corners[0] * up * left
    for corner, vertical, horizontal in zip(
        corners[1:], (down, up, down), (left, right, right), strict=True
    ):
        total = total + corner * vertical * horizontal
    whole = total if values.dtype == np.float32 else round_half_away(total)
    return np.asarray(whole).astype(values.dtype)


def _fixed(op: Op, values: np.ndarray, target: tuple[int, int]) -> np.ndarray:
    y0, y1, down = fixed_samples(op, values.shape[1], target[0])
    x0, x1, right = fixed_samples(op, values.shape[2], target[1])
    down, right = down[:, None, None], right[:, None]
    up, left = _UNIT - down, _UNIT - right
    corners = _corners(values.astype(np.int64), (y0, y1), (x0, x1))
    weights = (up * left, down * left, up * right, down * right)
    total = sum(corner * weight for corner, weight in zip(corners, weights, strict=True))
    total = np.asarray(total, np.int64)
    rounded = total + np.where(total > 0, _UNIT * _UNIT // 2, -_UNIT * _UNIT // 2)
    return _truncated(rounded, _UNIT * _UNIT).astype(values.dtype)


def nearest_samples(op: Op, source: int, result: int) -> Int64:
    """Source index of each output index."""
    scale = np.float32(source) / np.float32(result)
    if _aligned(op) and result > 1:
        scale = np.float32(source - 1) / np.float32(result - 1)
    offset = np.float32(0.5 if _centred(op) else 0.0)
    position = (np.arange(result, dtype=np.float32) + offset) * scale
    if _aligned(op):
        position = np.floor(position.astype(np.float64) + 0.5)
    return np.clip(np.floor(position).astype(np.int64), 0, source - 1)


def _evaluate_nearest(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, (height, width) = present(inputs[0]), _target(op, inputs)
    rows = nearest_samples(op, values.shape[1], height)
    columns = nearest_samples(op, values.shape[2], width)
    return [values[:, rows][:, :, columns]]


def _cost(op: Op) -> Cost:
    source, result = operand(op, 0), op.outputs[0]
    return Cost(arithmetic=4 * result.elements, bytes=source.size_bytes + result.size_bytes)


_RULES = (
    when_ranked("image", _is_image, "the input must have 4 dimensions and the size 2 elements"),
    Rule("size", _sizes_positive, "the new size must be positive"),
    Rule("not-empty", _not_empty, "the image must have pixels"),
    same_quant(),
)


def _resizer(
    kind: str,
    names: str,
    evaluate: Callable[[Op, Arrays], list[np.ndarray]],
    rules: tuple[Rule, ...],
) -> None:
    register(
        OpDef(
            kind=kind,
            attrs=ResizeAttrs,
            arity=(2, 2),
            required=2,
            dtypes=tuple(f"{name} INT32 -> {name}" for name in names.split()),
            infer=infer_ranked(_infer),
            evaluate=evaluate,
            rules=rules,
            quant=QuantRule(same_as_input=True),
            cost=_cost,
        )
    )


_resizer(
    "RESIZE_BILINEAR",
    "FLOAT32 INT8 UINT8 INT16",
    _evaluate_bilinear,
    (*_RULES, one_of("coordinate_transformation", _LINEAR)),
)
_resizer(
    "RESIZE_NEAREST_NEIGHBOR",
    "FLOAT32 INT8 UINT8 INT16",
    _evaluate_nearest,
    (*_RULES, one_of("coordinate_transformation", (*_LINEAR, "half_pixel_align_corners"))),
)
