"""Native changes of number form give what the records give."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Quantization
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.quantize import CastAttrs
from tests.backends.cpu.cases import QUANT, Cases, each_width, each_width_of

STORED = (DType.INT8, DType.UINT8, DType.INT16)
EDGES = np.array(
    [0, -0.0, 0.5, -0.5, 1.5, 0.49999997, 2.4e9, -3e9, np.inf, -np.inf, np.nan, 1e-30, 127.5],
    np.float32,
)
FINER = Quantization.per_tensor(0.013, 20)
COARSER = Quantization.per_tensor(0.9, 1)


@each_width
def test_quantising_floats_equals_the_record(target: str) -> None:
    cases = Cases()
    for dtype in STORED:
        random = cases.data(DType.FLOAT32, (3, 5, 77))
        for data in (cases.given(EDGES), cases.given(np.tile(EDGES, 31)), random):
            cases.op("QUANTIZE", [data], dtype=dtype, quant=QUANT)
    cases.check(target)


@each_width
@pytest.mark.parametrize("scale", [0.05, 1 / 255, 0.0078125, 3.1e-5, 1e-39, 7e37, 3e38])
def test_halves_and_their_neighbours_round_as_the_record_does(scale: float, target: str) -> None:
    cases = Cases()
    step = np.float64(np.float32(scale))
    with np.errstate(over="ignore"):
        halves = ((np.arange(-300, 300) + 0.5) * step).astype(np.float32)
        wide = ((np.arange(-4e4, 4e4, 37) + 0.5) * step).astype(np.float32)
    near = [np.nextafter(halves, np.float32(way)) for way in (-np.inf, np.inf)]
    for dtype in STORED:
        quant = Quantization.per_tensor(scale, 0 if dtype is DType.INT16 else 3)
        for values in (halves, *near, np.nextafter(wide, np.float32(0))):
            cases.op("QUANTIZE", [cases.given(values)], dtype=dtype, quant=quant)
    cases.check(target)


@each_width
@pytest.mark.parametrize("scale", [0.05, 1 / 255, 0.0078125, 1e-39, 3e38])
def test_halves_go_to_even_as_in_the_onnx_record(scale: float, target: str) -> None:
    cases = Cases()
    step = np.float64(np.float32(scale))
    with np.errstate(over="ignore"):
        halves = ((np.arange(-300, 300) + 0.5) * step).astype(np.float32)
    near = [np.nextafter(halves, np.float32(way)) for way in (-np.inf, np.inf)]
    factor = cases.constant(np.float32(scale))
    for dtype in (np.int8, np.uint8):
        zero = cases.constant(np.array([3], dtype))
        for values in (halves, *near, np.tile(EDGES[~np.isnan(EDGES)], 31)):
            given = [cases.given(values), factor, zero]
            stored = DType(np.dtype(dtype).name.upper())
            code = "onnx.QuantizeLinear"
            cases.op("CUSTOM", given, OnnxAttrs(), dtype=stored, custom_code=code)
    cases.check(target)


def rows_of_scales(dtype: DType) -> Cases:
    """Rows quantised by scales and zero points, constant or given, one for each row or for all."""
    cases = Cases()
    steps = np.array([0.05, 1 / 255, 1e-39, 3e38, -0.1, 0.03], np.float32)
    zeros = np.arange(3, 9, dtype=dtype.numpy)
    halves = (np.arange(-150, 150) + 0.5).astype(np.float32)
    with np.errstate(over="ignore"):
        near = [halves * steps[:, None], np.nextafter(halves, np.float32(0)) * steps[:, None]]
    for given in (cases.given, cases.constant):
        wide = [given(values.reshape(6, 1)) for values in (steps, zeros)]
        single = [given(values[:1]) for values in (steps, zeros)]
        for scale, zero in (wide, single, [single[0], wide[1]], [wide[0], single[1]]):
            for values in (*near, np.tile(EDGES[~np.isnan(EDGES)], (6, 9))):
                inputs = [cases.given(values), scale, zero]
                code = "onnx.QuantizeLinear"
                cases.op("CUSTOM", inputs, OnnxAttrs(), dtype=dtype, custom_code=code)
    return cases


@each_width
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_scales_of_rows_quantise_as_in_the_onnx_record(dtype: DType, target: str) -> None:
    rows_of_scales(dtype).check(target, threads=2)


@each_width
def test_requantising_equals_the_record(target: str) -> None:
    cases = Cases()
    for source in STORED:
        for result in STORED:
            for out in (FINER, COARSER):
                data = cases.data(source, (5, 333))
                cases.op("QUANTIZE", [data], dtype=result, quant=out)
    cases.check(target, threads=2)


@each_width
def test_dequantising_equals_the_record(target: str) -> None:
    cases = Cases()
    for dtype in STORED:
        cases.op("DEQUANTIZE", [cases.data(dtype, (2, 3, 19))])
    per_channel = Quantization.per_channel([0.1, 0.2, 0.3], axis=1)
    cases.op("DEQUANTIZE", [cases.data(DType.INT8, (2, 3, 19), per_channel)])
    cases.check(target)


@each_width_of("source", (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32), [DType.FLOAT32])
def test_casts_equal_the_record(source: DType, target: str) -> None:
    cases = Cases()
    for result in (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32):
        attrs = CastAttrs(source.name, result.name)
        cases.op("CAST", [cases.data(source, (3, 41), None)], attrs, dtype=result)
        if source.is_float:
            finite = EDGES[np.isfinite(EDGES)] if result.is_float else EDGES
            cases.op("CAST", [cases.given(finite)], attrs, dtype=result)
    cases.check(target)
