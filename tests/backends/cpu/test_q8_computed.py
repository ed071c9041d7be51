"""8-bit weights and biases that are computed at run time are as exact as constant ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet import Session
from circlet.formats import dumps
from circlet.ir import DType, Quantization, Tensor
from circlet.ops.build import builder
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.operands import limits
from tests.backends.cpu.cases import QUANT, Cases, each_target
from tests.tiers import slow
from tests.windows import conv2d_attrs

ROWS = (((1, 7), 5), ((37, 33), 20), ((2, 3, 8), 17), ((2, 2, 3, 9), 70), ((3, 2), 33))
CONVOLUTIONS = (
    ((1, 5, 6, 3), (10, 3, 3, 3), conv2d_attrs("SAME", 1, 1, "RELU")),
    ((2, 7, 6, 5), (33, 3, 2, 5), conv2d_attrs("SAME", 2, 1)),
    ((1, 6, 6, 16), (40, 1, 1, 16), conv2d_attrs("SAME", 1, 1, "RELU6")),
    ((1, 9, 9, 20), (17, 3, 3, 20), conv2d_attrs("VALID", 1, 1, "NONE", 2, 2)),
    ((1, 6, 5, 1), (130, 2, 2, 1), conv2d_attrs("VALID", 1, 1)),
)


def bias_of(cases: Cases, form: str, count: int) -> list[Tensor]:
    if form == "none":
        return []
    values = np.linspace(-3000, 3000, count).astype(np.int32)
    return [cases.constant(values) if form == "constant" else cases.given(values)]


@each_target
@pytest.mark.parametrize("dtype", [DType.UINT8, *slow(DType.INT8)])
def test_rows_times_computed_weights_equal_the_record(dtype: DType, target: str) -> None:
    cases, result = Cases(), Quantization.per_tensor(1.7, 4)
    for form in ("none", "constant", "computed"):
        for shape, units in ROWS:
            zero = Quantization.per_tensor(0.02, -6 if dtype is DType.INT8 else 131)
            weights = cases.data(dtype, (units, shape[-1]), zero)
            bias = bias_of(cases, form, units)
            attrs = FullyConnectedAttrs("RELU", keep_num_dims=len(shape) > 2)
            operands = [cases.data(dtype, shape, QUANT), weights, *bias]
            cases.op("FULLY_CONNECTED", operands, attrs, quant=result)
    cases.check(target, threads=2)


def scales_of(dtype: DType, channels: int, *, own: bool) -> Quantization:
    if own and dtype is DType.INT8:
        return Quantization.per_channel(np.linspace(0.004, 0.03, channels, dtype=np.float32), 0)
    return Quantization.per_tensor(0.02, 0 if dtype is DType.INT8 else 120)


@each_target
@pytest.mark.parametrize("dtype", [DType.INT8, *slow(DType.UINT8)])
def test_convolutions_over_computed_weights_equal_the_record(dtype: DType, target: str) -> None:
    cases, result = Cases(), Quantization.per_tensor(0.9, 5)
    for form in ("none", "constant", "computed"):
        for index, (image, filters, attrs) in enumerate(CONVOLUTIONS):
            quant = scales_of(dtype, filters[0], own=index % 2 == 0)
            weights = cases.data(dtype, filters, quant)
            operands = [cases.data(dtype, image, QUANT), weights, *bias_of(cases, form, filters[0])]
            cases.op("CONV_2D", operands, attrs, quant=result)
    cases.check(target, threads=3)


@each_target
@pytest.mark.parametrize("step", [1e-3, 30.0])
def test_sums_of_extremes_are_exact(step: float, target: str) -> None:
    cases = Cases()
    least, most = limits(DType.INT8)
    for depth in (4, 300, 66000):
        for first, second in ((least, least), (most, least), (least, most)):
            x = cases.given(np.full((1, 1, 2, depth), first, np.int8), QUANT)
            w = cases.given(
                np.full((9, 1, 1, depth), second, np.int8), scales_of(DType.INT8, 9, own=True)
            )
            bias = cases.given(np.full(9, 1 << 20, np.int32))
            cases.op(
                "CONV_2D",
                [x, w, bias],
                conv2d_attrs("VALID", 1, 1),
                quant=Quantization.per_tensor(step, -7),
            )
    cases.check(target)


@each_target
def test_constant_rows_and_weights_in_parts_of_others(target: str) -> None:
    cases = Cases()
    rows = cases.constant(cases.values(DType.INT8, (6, 12)), QUANT)
    weights = cases.data(DType.INT8, (21, 12), Quantization.per_tensor(0.02))
    cases.op("FULLY_CONNECTED", [rows, weights], FullyConnectedAttrs(), quant=QUANT)
    wide = cases.builder.op("ABS", [cases.data(DType.INT8, (8, 3, 3, 10), QUANT)], quant=QUANT)
    size = cases.constant(np.array([8, 3, 3, 5], np.int32))
    x = cases.data(DType.INT8, (1, 6, 6, 5), QUANT)
    for start in (0, 5):
        at = cases.constant(np.array([0, 0, 0, start], np.int32))
        half = cases.builder.op("SLICE", [wide, at, size], quant=QUANT)
        cases.op("CONV_2D", [x, half], conv2d_attrs("SAME", 1, 1), quant=QUANT)
    cases.check(target, threads=2)


def test_rows_may_be_joined_into_longer_ones() -> None:
    cases = Cases()
    weights = cases.data(DType.INT8, (5, 12), Quantization.per_tensor(0.02))
    rows = cases.data(DType.INT8, (4, 6), QUANT)
    made = cases.op("FULLY_CONNECTED", [rows, weights], FullyConnectedAttrs(), quant=QUANT)
    assert made.shape == (2, 5)
    cases.check("native")


@pytest.mark.parametrize("sizes", [(3, 40), (64, 7)])
def test_other_sizes_give_what_a_session_for_them_gives(sizes: Sequence[int]) -> None:
    rows, units = sizes
    b, random = builder(), np.random.default_rng(8)
    x = b.input("x", DType.INT8, (16, 24), QUANT)
    w = b.input("w", DType.INT8, (32, 24), Quantization.per_tensor(0.02))
    result = b.op("FULLY_CONNECTED", [x, w], FullyConnectedAttrs(), quant=QUANT)
    model = dumps(b.output(result).model(), "tflite")
    shapes = {"x": (rows, 24), "w": (units, 24)}
    given = [random.integers(-128, 128, shape, np.int8) for shape in shapes.values()]
    resized = Session(model, strict=True).resized(shapes)
    fresh = Session(model, strict=True, shapes=shapes)
    for got, wanted in zip(resized.run(given).values(), fresh.run(given).values(), strict=True):
        np.testing.assert_array_equal(got, wanted)
