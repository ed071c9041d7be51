"""Native products of int16, and of float rows with stored bytes, as products of matrices."""

from __future__ import annotations

import pytest

from circlet.errors import PlacementError
from circlet.ir import DType, Quantization
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.backends.cpu.cases import Cases, each_target


@each_target
def test_rows_of_int16_times_computed_ones_equal_the_record(target: str) -> None:
    cases, result = Cases(), Quantization.per_tensor(0.01)
    for shape, units in (((1, 7), 5), ((37, 33), 20), ((2, 3, 8), 17)):
        pair = [
            cases.data(DType.INT16, sizes, Quantization.per_tensor(3e-4))
            for sizes in (shape, (units, shape[-1]))
        ]
        attrs = FullyConnectedAttrs("RELU", keep_num_dims=len(shape) > 2)
        cases.op("FULLY_CONNECTED", pair, attrs, quant=result)
    cases.check(target, threads=2)


def test_rows_joined_into_longer_ones_are_not_taken_for_rows() -> None:
    cases, quant = Cases(), Quantization.per_tensor(0.02)
    weights, rows = (cases.data(DType.INT16, shape, quant) for shape in ((5, 12), (4, 6)))
    made = cases.op("FULLY_CONNECTED", [rows, weights], FullyConnectedAttrs(), quant=quant)
    assert made.shape == (2, 5)
    with pytest.raises(PlacementError):
        cases.check("native")


@each_target
@pytest.mark.parametrize("asymmetric", [False, True])
def test_stacks_of_float_rows_over_bytes_equal_the_record(target: str, asymmetric: bool) -> None:
    cases = Cases()
    for left, right in (((3, 4, 70), (3, 70, 33)), ((2, 3, 5, 8), (3, 8, 6)), ((5, 9), (4, 9, 3))):
        for turned in (False, True):
            shape = (*right[:-2], right[-1], right[-2]) if turned else right
            quant = Quantization.per_tensor(0.02)
            weights = cases.constant(cases.values(DType.INT8, shape), quant)
            attrs = BatchMatMulAttrs(False, turned, asymmetric)
            cases.op("BATCH_MATMUL", [cases.data(DType.FLOAT32, left), weights], attrs)
    cases.check(target, threads=2)
