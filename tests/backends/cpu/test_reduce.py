"""Native reductions give what the records give."""

from __future__ import annotations

from itertools import product

import numpy as np

from circlet.ir import DType, Quantization
from circlet.ops.reduce import ArgAttrs, ReducerAttrs
from tests.backends.cpu.cases import QUANT, Cases, each_width, each_width_of

FORMS = (
    ((2, 7, 7, 130), (1, 2)),
    ((1, 30, 40, 3), (1, 2)),
    ((2, 17, 16, 21), (1, 2)),
    ((3, 2, 261, 5), (0, 2)),
    ((3, 5, 300), (2,)),
    ((3, 5, 300), (-1, 0)),
    ((3, 37, 7), (2,)),
    ((19, 2, 50), (2,)),
    ((2, 35, 3, 20), (1, 3)),
    ((4, 6, 5, 7), (0, 2)),
    ((4, 6, 5, 7), (1, 3)),
    ((4, 6, 5, 7), (0, 1, 2, 3)),
    ((2, 3, 2, 3, 2, 3), (0, 2, 4)),
    ((5, 1, 6), (1,)),
)
OUT = Quantization.per_tensor(0.031, -11)


TYPES = (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32)


@each_width_of(
    "kind, dtype",
    product(("MEAN", "SUM", "REDUCE_MAX"), TYPES),
    [("MEAN", DType.FLOAT32), ("SUM", DType.INT32), ("REDUCE_MAX", DType.INT8)],
)
def test_reductions_equal_the_record(kind: str, dtype: DType, target: str) -> None:
    cases = Cases()
    out = Quantization.per_tensor(0.031, 5) if dtype is DType.UINT8 else OUT
    for number, (shape, axes) in enumerate(FORMS):
        data, wanted = cases.data(dtype, shape), cases.constant(np.array(axes, np.int32))
        quant = QUANT if kind == "REDUCE_MAX" else out
        cases.op(kind, [data, wanted], ReducerAttrs(bool(number % 2)), quant=quant)
    cases.check(target, threads=2)


@each_width_of(
    "kind", ("REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"), ["REDUCE_PROD", "REDUCE_ANY"]
)
def test_extremes_products_and_logic_equal_the_record(kind: str, target: str) -> None:
    cases = Cases()
    logic = kind in ("REDUCE_ANY", "REDUCE_ALL")
    types = [DType.FLOAT32, DType.INT32, *([DType.INT8] if kind == "REDUCE_MIN" else [])]
    for dtype in [DType.INT8] if logic else types:
        for number, (shape, axes) in enumerate(FORMS):
            values = cases.values(dtype, shape, 1.0)
            given = values > (-128, 125, -100)[number % 3] if logic else values
            data = cases.given(given, QUANT if dtype is DType.INT8 and not logic else None)
            wanted = cases.constant(np.array(axes, np.int32))
            cases.op(kind, [data, wanted], ReducerAttrs(bool(number % 2)), quant=QUANT)
    cases.check(target, threads=2)


def test_sums_of_large_integers_equal_the_record() -> None:
    cases = Cases()
    values = np.random.default_rng(3).integers(-(2**62), 2**62, (3, 4, 5, 6))
    for axes in ((0,), (3,), (1, 2), (0, 1, 2, 3), (0, 2)):
        wanted = cases.constant(np.array(axes, np.int32))
        cases.op("SUM", [cases.given(values), wanted], ReducerAttrs(keep_dims=axes == (3,)))
    cases.check("native")


@each_width
def test_a_mean_of_many_large_floats_keeps_its_digits(target: str) -> None:
    cases = Cases()
    values = cases.values(DType.FLOAT32, (1, 112, 112, 24), 0.1) + np.float32(1000)
    for axes in ((1, 2), (1, 2, 3)):
        wanted = cases.constant(np.array(axes, np.int32))
        cases.op("MEAN", [cases.given(values), wanted], ReducerAttrs())
    cases.check(target, tolerance=1e-6)


@each_width_of(
    "kind, dtype",
    product(("ARG_MAX", "ARG_MIN"), TYPES),
    [("ARG_MAX", DType.FLOAT32), ("ARG_MIN", DType.INT8)],
)
def test_positions_equal_the_record(kind: str, dtype: DType, target: str) -> None:
    cases = Cases()
    rows = [((3, count), 1) for count in (16, 21, 32, 33, 90, 256, 257)]
    for shape, axis in (*rows, ((1, 1001), -1), ((4, 5, 37), 1), ((70, 3), 0), ((9,), 0)):
        for result in (DType.INT32, DType.INT64):
            values = cases.values(dtype, shape)
            for data in (values, np.clip(values, 0, 3), np.zeros_like(values)):
                wanted = cases.constant(np.array([axis], np.int32))
                source = cases.given(data, None if dtype.is_float else QUANT)
                cases.op(kind, [source, wanted], ArgAttrs(result.name), dtype=result)
    cases.check(target, threads=2)
