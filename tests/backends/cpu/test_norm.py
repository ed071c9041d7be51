"""Native row lengths and int16 tables give what the records give."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Quantization
from circlet.ops.circle_norm import InstanceNormAttrs
from circlet.ops.local_response_norm import LocalResponseNormAttrs
from tests.backends.cpu.cases import Cases, each_width
from tests.backends.cpu.harness import run_native


@each_width
def test_rows_divided_by_their_length_equal_the_record(target: str) -> None:
    cases = Cases()
    for shape in ((1, 768), (1, 4, 4, 3), (500, 37), (3, 1)):
        cases.op("L2_NORMALIZATION", [cases.data(DType.FLOAT32, shape)])
    cases.op("L2_NORMALIZATION", [cases.given(np.zeros((2, 20), np.float32))])
    cases.check(target, threads=2)


@each_width
def test_int16_tables_equal_the_record(target: str) -> None:
    cases = Cases()
    every = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    source = cases.given(every, Quantization.per_tensor(6e-5))
    cases.op("RSQRT", [source], quant=Quantization.per_tensor(3e-5))
    byte = cases.data(DType.INT8, (999,), Quantization.per_tensor(0.03, -100))
    cases.op("RSQRT", [byte], quant=Quantization.per_tensor(0.02, -100))
    cases.check(target, threads=2)


@each_width
def test_rows_of_bytes_divided_by_their_length_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype, zero in ((DType.INT8, 0), (DType.UINT8, 128)):
        result = Quantization.per_tensor(1 / 128, zero)
        for shape in ((1, 768), (1, 4, 4, 3), (50, 37), (9, 1), (1, 40000)):
            source = cases.data(dtype, shape, Quantization.per_tensor(0.1, zero - 5))
            cases.op("L2_NORMALIZATION", [source], quant=result)
        same = np.full((2, 20), zero, dtype.numpy)
        given = cases.given(same, Quantization.per_tensor(0.1, zero))
        cases.op("L2_NORMALIZATION", [given], quant=result)
    cases.check(target, threads=2)


@each_width
def test_channels_of_images_are_normalised_as_the_record_has_it(target: str) -> None:
    cases, random = Cases(), np.random.default_rng(8)
    for shape in ((1, 1, 1, 3), (2, 9, 7, 5), (1, 60, 70, 16), (2, 25, 31, 77), (1, 40, 3, 64)):
        for activation in ("NONE", "RELU6"):
            lists = [
                cases.constant(random.normal(1, 1, shape[-1]).astype(np.float32)) for _ in "gb"
            ]
            images = cases.given((random.normal(20, 3, shape)).astype(np.float32))
            cases.op("INSTANCE_NORM", [images, *lists], InstanceNormAttrs(1e-5, activation))
    images = cases.data(DType.FLOAT32, (1, 5, 5, 40))
    one = [cases.constant(np.array([value], np.float32)) for value in (2, -1)]
    cases.op("INSTANCE_NORM", [images, *one], InstanceNormAttrs(0.5))
    cases.check(target, threads=2)


def test_images_are_normalised_alike_by_any_number_of_threads() -> None:
    cases, random = Cases(), np.random.default_rng(9)
    lists = [cases.constant(random.normal(1, 1, 48).astype(np.float32)) for _ in "gb"]
    images = cases.given(random.normal(1000, 0.1, (3, 37, 41, 48)).astype(np.float32))
    cases.op("INSTANCE_NORM", [images, *lists], InstanceNormAttrs(1e-5, "RELU"))
    graph = cases.graph()
    one, three = (run_native(graph, cases.inputs, threads=n) for n in (1, 3))
    np.testing.assert_array_equal(one, three)


def test_images_of_no_pixels_are_normalised() -> None:
    cases = Cases()
    lists = [cases.constant(np.ones(4, np.float32)) for _ in "gb"]
    shapes = ((0, 3, 3, 4), (2, 0, 3, 4), (2, 3, 3, 4))
    for shape in shapes:
        cases.op("INSTANCE_NORM", [cases.data(DType.FLOAT32, shape), *lists], InstanceNormAttrs())
    results = run_native(cases.graph(), cases.inputs, threads=2)
    assert [result.shape for result in results] == [*shapes]


@each_width
def test_channels_divided_by_their_neighbours_equal_the_record(target: str) -> None:
    cases = Cases()
    for beta in (0.5, 0.75, 1.0, 0.3):
        for shape, radius in (((1, 3, 3, 40), 2), ((2, 500, 7), 5), ((5, 3), 100), ((4, 1), 0)):
            attrs = LocalResponseNormAttrs(radius, 2.0, 0.3, beta)
            cases.op("LOCAL_RESPONSE_NORMALIZATION", [cases.data(DType.FLOAT32, shape)], attrs)
    cases.check(target, threads=2)


def test_what_is_not_a_number_or_infinite_stays_so() -> None:
    cases = Cases()
    cases.op("L2_NORMALIZATION", [cases.given(np.array([[np.nan, 1], [3, 4]], np.float32))])
    numbers = np.array([[np.nan, -np.inf], [np.nan, 1], [3, 4]], np.float32)
    cases.op("COMPLEX_ABS", [cases.given(numbers.view(np.complex64)[:, 0])])
    rows, lengths = run_native(cases.graph(), cases.inputs)
    np.testing.assert_allclose(rows, [[np.nan, np.nan], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_array_equal(lengths, [np.inf, np.nan, 5])
