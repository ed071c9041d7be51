"""Native resizing gives what the records give."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType
from circlet.ops.resize import ResizeBilinearAttrs, ResizeNearestNeighborAttrs
from tests.backends.cpu.cases import QUANT, Cases, each_target

PLACEMENTS = ((False, False), (True, False), (False, True))
SIZES = ((1, 1), (3, 17), (10, 14), (23, 9), (5, 7))


@each_target
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16])
@pytest.mark.parametrize(
    ("kind", "attrs"),
    [
        ("RESIZE_BILINEAR", ResizeBilinearAttrs),
        ("RESIZE_NEAREST_NEIGHBOR", ResizeNearestNeighborAttrs),
    ],
)
def test_resizing_equals_the_record(kind: str, attrs: type, dtype: DType, target: str) -> None:
    cases = Cases()
    for channels in (1, 3, 21, 64):
        data = cases.data(dtype, (2, 5, 7, channels))
        for size in SIZES:
            for placement in PLACEMENTS:
                wanted = cases.constant(np.array(size, np.int32))
                cases.op(kind, [data, wanted], attrs(*placement), quant=QUANT)
    cases.check(target, threads=2)
