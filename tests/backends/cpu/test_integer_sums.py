"""MatMulInteger over constant weights gives the record's sums, bit for bit."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Tensor
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from tests.backends.cpu.cases import Cases, each_target

SIZES = ((6, 300, 24), (1, 3, 5), (17, 64, 70), (2, 1500, 33))


def add_sums(cases: Cases, sizes: tuple[int, int, int], dtype: DType, weights: DType) -> None:
    """A MatMulInteger of rows, depth and units."""
    rows, depth, units = sizes
    rng, code = np.random.default_rng(sum(sizes)), f"{PREFIX}MatMulInteger"
    number = len(cases.outputs)
    stored = rng.integers(0, 256, (depth, units)).astype(np.uint8).view(weights.numpy)
    centre = np.full(units, 128 if weights is DType.UINT8 else 0, weights.numpy)
    zero = cases.given(np.array(int(rng.integers(0, 127)), dtype.numpy), None)
    constants = [cases.builder.constant(f"w{number}", stored)]
    if weights is DType.UINT8:
        constants.append(cases.builder.constant(f"z{number}", centre))
    inputs = [cases.data(dtype, (rows, depth), None), constants[0], zero, *constants[1:]]
    types = [Tensor(f"sums{number}", DType.INT32, (rows, units))]
    cases.outputs += cases.builder.op_many("CUSTOM", inputs, types, OnnxAttrs(), custom_code=code)


@each_target
def test_sums_over_bytes_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in (DType.UINT8, DType.INT8):
        for weights in (DType.INT8, DType.UINT8):
            for sizes in SIZES:
                add_sums(cases, sizes, dtype, weights)
    cases.check(target, threads=2, tolerance=0)
