"""Pixels stand apart where lines of a row would meet in few sets of a cache."""

from __future__ import annotations

import pytest

from circlet.backends.cpu.lower.products.windows import pixel_gap
from circlet.ir import DType, Tensor


@pytest.mark.parametrize(
    ("dtype", "width", "channels", "gap"),
    [
        (DType.FLOAT32, 16, 512, 16),  # 32 lines a pixel: two sets for 64 lines
        (DType.FLOAT32, 9, 1024, 16),
        (DType.FLOAT32, 9, 512, 16),
        (DType.FLOAT32, 4, 512, 0),  # 16 lines fit two sets
        (DType.FLOAT32, 16, 528, 0),  # 33 lines a pixel: all sets
        (DType.FLOAT32, 16, 520, 0),  # pixels start within lines
        (DType.FLOAT32, 200, 16, 0),  # all sets, whatever is done
        (DType.FLOAT32, 200, 32, 16),
        (DType.INT8, 16, 512, 0),
        (DType.INT8, 9, 1024, 64),
        (DType.INT8, 9, 8, 0),
    ],
)
def test_a_line_is_left_where_sets_would_overflow(
    dtype: DType, width: int, channels: int, gap: int
) -> None:
    image = Tensor("x", dtype, (1, 14, width - 2, channels))
    assert pixel_gap(image, width, 3) == gap
