"""Native resizing gives what the records give."""

from __future__ import annotations

from itertools import product

import numpy as np

from circlet.ir import DType
from circlet.ops.resize import ResizeAttrs
from tests.backends.cpu.cases import QUANT, Cases, each_width_of

COORDINATES = ("asymmetric", "align_corners", "half_pixel")
KINDS = ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
SIZES = ((1, 1), (3, 17), (10, 14), (23, 9), (17, 49), (5, 7))


@each_width_of(
    "kind, dtype",
    product(KINDS, (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16)),
    [("RESIZE_BILINEAR", DType.FLOAT32), ("RESIZE_NEAREST_NEIGHBOR", DType.INT8)],
)
def test_resizing_equals_the_record(kind: str, dtype: DType, target: str) -> None:
    cases = Cases()
    for channels in (1, 3, 21, 64):
        data = cases.data(dtype, (2, 5, 7, channels))
        for size in SIZES:
            for coordinates in COORDINATES:
                wanted = cases.constant(np.array(size, np.int32))
                cases.op(kind, [data, wanted], ResizeAttrs(coordinates), quant=QUANT)
    cases.check(target, threads=2)


@each_width_of(
    "dtype",
    (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16),
    [DType.FLOAT32, DType.INT8, DType.INT16],
)
def test_single_channels_are_doubled_as_the_record_does(dtype: DType, target: str) -> None:
    cases = Cases()
    for width in (7, 8, 37, 70):
        data = cases.data(dtype, (2, 3, width, 1))
        for size in ((6, 2 * width), (3, 2 * width - 1), (5, 3 * width)):
            wanted = cases.constant(np.array(size, np.int32))
            cases.op("RESIZE_NEAREST_NEIGHBOR", [data, wanted], ResizeAttrs(), quant=QUANT)
    cases.check(target, threads=2)
