from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import DType
from circlet.ops import find
from circlet.ops.resize import ResizeAttrs
from tests.ops.one_op import assert_agrees, broken_rule, make_op, stored_values, tensor

COORDINATES = ["asymmetric", "align_corners", "half_pixel"]
SIZES = [((3, 5), (9, 11)), ((7, 4), (5, 2)), ((6, 6), (1, 1)), ((33, 20), (17, 61))]
TYPES = [DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16]
KINDS = ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"]


def image(dtype: DType, size: tuple[int, int]) -> np.ndarray:
    if dtype is DType.FLOAT32:
        return np.random.default_rng(0).normal(0, 2, (2, *size, 3)).astype(np.float32)
    return stored_values(dtype, (2, *size, 3))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("source", "target"), SIZES)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("kind", KINDS)
def test_resized_image_agrees(
    kind: str,
    coordinates: str,
    source: tuple[int, int],
    target: tuple[int, int],
    dtype: DType,
) -> None:
    x, quant = image(dtype, source), None if dtype is DType.FLOAT32 else (0.1, 0)
    size = tensor("size", np.array(target, np.int32), constant=True)
    op = make_op(kind, [tensor("x", x, quant), size], (dtype, quant), ResizeAttrs(coordinates), 4)
    assert_agrees(op, [x])


def test_size_computed_at_run_time_has_unknown_dims() -> None:
    x, size = np.zeros((1, 4, 4, 2), np.float32), np.array([2, 3], np.int32)
    op = make_op("RESIZE_BILINEAR", [tensor("x", x), tensor("size", size)], (DType.FLOAT32, None))
    record = find("RESIZE_BILINEAR")
    assert record is not None
    assert record.infer(op)[0].shape == (1, None, None, 2)
    assert record.evaluate(op, [x, size])[0].shape == (1, 2, 3, 2)
    with pytest.raises(GraphError):
        record.evaluate(op, [x, np.array([2, 0], np.int32)])


@pytest.mark.parametrize(
    ("shape", "size", "coordinates", "rule"),
    [
        ((1, 4, 4, 2), [0, 3], "asymmetric", "size"),
        ((1, 4, 4, 2), [-1, 3], "asymmetric", "size"),
        ((1, 0, 4, 2), [2, 3], "asymmetric", "not-empty"),
        ((1, 4, 4, 2), [2, 3], "half_pixel_align_corners", "coordinate_transformation_known"),
    ],
)
def test_rules_refuse_impossible_sizes(
    shape: tuple[int, ...], size: list[int], coordinates: str, rule: str
) -> None:
    x = tensor("x", np.zeros(shape, np.float32))
    wanted = tensor("size", np.array(size, np.int32), constant=True)
    op = make_op("RESIZE_BILINEAR", [x, wanted], (DType.FLOAT32, None), ResizeAttrs(coordinates))
    assert broken_rule(op) == rule
