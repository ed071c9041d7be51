"""TransformLandmarks, points through a matrix, and Landmarks2TransformMatrix, which makes one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.ir import DType, Op
from circlet.ops.decomposition import Parts
from circlet.ops.mediapipe.landmark_steps import Region, region_matrix, transform_points
from circlet.ops.mediapipe.transform import takes_one_matrix
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import moves_bytes, operand, present, same_as_first

Real = npt.NDArray[np.float64]
_NEWER = 2  # the version whose operands have three dimensions


@dataclass(frozen=True)
class TransformLandmarksAttrs:
    """Coordinates of a point, and what the matrix's shift is multiplied by; for version 1 only."""

    dimensions: int = 3
    scale: float = 1.0


@dataclass(frozen=True)
class LandmarksMatrixAttrs:
    """Which points say where a region lies, how it is turned, and what it is mapped to.

    Attributes:
        left_rotation_idx, right_rotation_idx: The points between which a line is made level.
        subset, dimensions, landmarks_range, bbox_size_multiplier, input_hw, output_hw: For version
            1: points of the region, their coordinates and range, how the region is enlarged, and
            heights and widths of the images.
        subset_idxs, target_rotation_radians, output_height, output_width, scale_x, scale_y: The
            same for version 2, and the angle that the line is to have.
    """

    left_rotation_idx: int = 0
    right_rotation_idx: int = 0
    subset: tuple[int, ...] = ()
    dimensions: int = 3
    landmarks_range: int = 1
    bbox_size_multiplier: float = 1.0
    input_hw: tuple[int, ...] = (1, 1)
    output_hw: tuple[int, ...] = (1, 1)
    subset_idxs: tuple[int, ...] = ()
    target_rotation_radians: float = 0.0
    output_height: int = 1
    output_width: int = 1
    scale_x: float = 1.0
    scale_y: float = 1.0


def _coordinates(op: Op) -> int | None:
    """Coordinates of a point: of the last dimension in version 2, else as attributes say."""
    if op.version >= _NEWER:
        return operand(op, 0).shape[-1]
    return op.attributes(TransformLandmarksAttrs).dimensions


def _transform(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """The first two coordinates change."""
    points, rows = present(arrays[0]), present(arrays[1]).reshape(4, 4)[:2].astype(np.float32)
    newer = op.version >= _NEWER
    count = points.shape[-1] if newer else op.attributes(TransformLandmarksAttrs).dimensions
    scale = np.float32(1 if newer else op.attributes(TransformLandmarksAttrs).scale)
    made = points.reshape(-1, count).copy()
    x, y = made[:, 0].copy(), made[:, 1].copy()
    for axis, row in enumerate(rows):
        made[:, axis] = row[0] * x + row[1] * y + row[2] * np.float32(0) + row[3] * scale
    return [made.reshape(points.shape)]


def _transform_steps(op: Op) -> list[Op]:
    count, data = _coordinates(op), operand(op, 0)
    if count is None or None in data.shape:
        return []
    scale = 1.0 if op.version >= _NEWER else op.attributes(TransformLandmarksAttrs).scale
    parts = Parts(op)
    transform_points(parts, data, operand(op, 1), count, scale, op.outputs[0])
    return parts.ops


def _points_fit(op: Op) -> bool:
    shape, wanted = operand(op, 0).shape, 3 if op.version >= _NEWER else 4
    if len(shape) != wanted or shape[0] not in (None, 1) or shape[-1] is None:
        return False
    count = _coordinates(op)
    return count in (2, 3) and shape[-1] % count == 0


def _scale_holds(op: Op) -> bool:
    scale = op.attributes(TransformLandmarksAttrs).scale
    return bool(np.isfinite(scale)) and scale != 0


def _matrix(op: Op, arrays: Arrays) -> list[np.ndarray]:
    points = present(arrays[0]).reshape(-1, 3)[:, :2].astype(np.float64)
    make = _matrix_of_region if op.version >= _NEWER else _matrix_of_crop
    return [make(op.attributes(LandmarksMatrixAttrs), points).astype(np.float32)[None]]


def _turn(angle: float) -> Real:
    sine, cosine = np.sin(angle), np.cos(angle)
    return np.array([[cosine, -sine], [sine, cosine]])


def _matrix_of_crop(attrs: LandmarksMatrixAttrs, points: Real) -> Real:
    """Version 1: from pixels of the output to pixels of the input, through -1 to 1."""
    step = points[attrs.right_rotation_idx] - points[attrs.left_rotation_idx]
    angle = -float(np.arctan(step[1] / step[0]))
    turned = points[list(attrs.subset)] @ _turn(angle).T
    low, high = turned.min(axis=0), turned.max(axis=0)
    scale = np.diag([*((high - low) * attrs.bbox_size_multiplier / attrs.landmarks_range), 1.0])
    middle = _turn(-angle) @ ((high + low) / 2)
    turn = np.eye(3)
    turn[:2, :2], turn[:2, 2] = _turn(-angle), middle / attrs.landmarks_range * 2 - 1
    (rows, columns), (high_out, wide_out) = attrs.input_hw, attrs.output_hw
    relative = np.diag([_inverse(wide_out), _inverse(high_out), 1.0])
    relative[:2, 2] = -1
    absolute = np.diag([(columns - 1) / 2, (rows - 1) / 2, 1.0])
    absolute[:2, 2] = [(columns - 1) / 2, (rows - 1) / 2]
    flat = absolute @ turn @ scale @ relative
    made = np.zeros((4, 4))
    made[:2, :2], made[:2, 3] = flat[:2, :2], flat[:2, 2]
    made[2, 2] = made[3, 3] = 1
    return made


def _inverse(size: int) -> float:
    """Two over the steps between the pixels of a side; without steps it is infinite."""
    return float(np.float64(2) / np.float64(size - 1))


def _matrix_of_region(attrs: LandmarksMatrixAttrs, points: Real) -> Real:
    """Version 2: the region's centre, turned and enlarged, under the centre of the output."""
    step = points[attrs.right_rotation_idx] - points[attrs.left_rotation_idx]
    angle = attrs.target_rotation_radians - float(np.arctan2(step[1], step[0]))
    turned = points[list(attrs.subset_idxs)] @ _turn(angle).T
    low, high = turned.min(axis=0), turned.max(axis=0)
    sizes = np.array([attrs.output_width, attrs.output_height], np.float64)
    scale = np.array([attrs.scale_x, attrs.scale_y]) * (high - low) / sizes
    flat = _turn(-angle) * scale
    made = np.eye(4)
    made[:2, :2] = flat
    made[:2, 3] = _turn(-angle) @ ((low + high) / 2) - flat @ (sizes / 2)
    return made


def _region(op: Op) -> Region:
    attrs = op.attributes(LandmarksMatrixAttrs)
    line = attrs.left_rotation_idx, attrs.right_rotation_idx
    if op.version >= _NEWER:
        width, height = attrs.output_width, attrs.output_height
        return Region(
            line,
            attrs.subset_idxs,
            attrs.target_rotation_radians,
            by_slope=False,
            grown=(attrs.scale_x, attrs.scale_y),
            steps=(1 / width, 1 / height),
            unit=(1.0, 1.0),
        )
    (rows, columns), (high_out, wide_out) = attrs.input_hw, attrs.output_hw
    size = attrs.bbox_size_multiplier
    return Region(
        line,
        attrs.subset,
        0.0,
        by_slope=True,
        grown=(size, size),
        steps=(0.5 * _inverse(wide_out), 0.5 * _inverse(high_out)),
        unit=((columns - 1) / attrs.landmarks_range, (rows - 1) / attrs.landmarks_range),
    )


def _matrix_steps(op: Op) -> list[Op]:
    attrs, data = op.attributes(LandmarksMatrixAttrs), operand(op, 0)
    if None in data.shape or (op.version < _NEWER and 1 in attrs.output_hw):
        return []
    parts = Parts(op)
    region_matrix(parts, data, _region(op), op.outputs[0])
    return parts.ops


def _landmarks_fit(op: Op) -> bool:
    shape = operand(op, 0).shape
    if op.version >= _NEWER:
        return len(shape) == 3 and shape[0] in (None, 1) and shape[2] in (None, 3)
    return len(shape) == 4 and all(size in (None, 1) for size in shape[:3])


def _has_three(op: Op) -> bool:
    whole = (operand(op, 0).shape[-1] or 3) % 3 == 0
    return op.attributes(LandmarksMatrixAttrs).dimensions == 3 and whole


def _points_exist(op: Op) -> bool:
    attrs, tensor = op.attributes(LandmarksMatrixAttrs), operand(op, 0)
    region = attrs.subset_idxs if op.version >= _NEWER else attrs.subset
    named = (attrs.left_rotation_idx, attrs.right_rotation_idx, *region)
    count = tensor.elements // 3
    return bool(region) and all(0 <= index < count for index in named)


def _numbers_hold(op: Op) -> bool:
    attrs = op.attributes(LandmarksMatrixAttrs)
    if op.version >= _NEWER:
        least = min(attrs.output_height, attrs.output_width, attrs.scale_x, attrs.scale_y)
        return least > 0 and bool(np.isfinite(attrs.target_rotation_radians))
    sizes = (*attrs.input_hw, *attrs.output_hw, attrs.landmarks_range)
    return len(sizes) == 5 and min(sizes) > 0 and attrs.bbox_size_multiplier != 0


register(
    OpDef(
        kind="CUSTOM:TransformLandmarks",
        attrs=TransformLandmarksAttrs,
        arity=(2, 2),
        required=2,
        dtypes=("FLOAT32 FLOAT32 -> FLOAT32",),
        infer=same_as_first,
        evaluate=_transform,
        rules=(
            Rule(
                "points",
                _points_fit,
                "the input needs whole points of 2 or 3 coordinates, 4 dimensions in version 1 "
                "and 3 in version 2, of which the first is 1",
            ),
            Rule("scale", _scale_holds, "the scale must be a number other than 0"),
            takes_one_matrix(1),
        ),
        numerics="tolerance",
        cost=lambda op: Cost(bytes=moves_bytes(op).bytes, macs=4 * operand(op, 0).elements),
        decompose=_transform_steps,
    )
)

register(
    OpDef(
        kind="CUSTOM:Landmarks2TransformMatrix",
        attrs=LandmarksMatrixAttrs,
        arity=(1, 1),
        dtypes=("FLOAT32 -> FLOAT32",),
        infer=lambda op: [TensorType(DType.FLOAT32, (1, 4, 4))],
        evaluate=_matrix,
        rules=(
            Rule(
                "landmarks",
                _landmarks_fit,
                "the input needs the sizes 1, 1, 1, n in version 1 and 1, n, 3 in version 2",
            ),
            Rule("dimensions", _has_three, "points need 3 coordinates"),
            Rule("subset", _points_exist, "points of the region or of the line do not exist"),
            Rule("numbers", _numbers_hold, "sizes, scales and ranges must be positive"),
        ),
        numerics="tolerance",
        cost=lambda op: Cost(
            bytes=moves_bytes(op).bytes,
            arithmetic=256 + 16 * len(op.attributes(LandmarksMatrixAttrs).subset),
        ),
        decompose=_matrix_steps,
    )
)
