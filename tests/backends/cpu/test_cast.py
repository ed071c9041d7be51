"""Native casts between any two numeric types give what the record gives."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Tensor
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.quantize import CASTABLE
from circlet.ops.split import SplitAttrs
from tests.backends.cpu.cases import Cases, each_target
from tests.backends.cpu.harness import run_native, runnable
from tests.tiers import quick_of

QUICK = ("BOOL", "INT8", "INT64", "UINT64", "FLOAT16", "FLOAT32")
_FLOATS = [0.0, -0.0, 0.5, -0.9, 1.5, 2.5, 127.6, -129.0, 255.5, 65519.9, 65520.0, 70000.0, -7e4]
_FLOATS += [6e-8, 2.98e-8, 2.99e-8, 8.9e-8, 6.1e-5, 1e-5, 2049.0, 2051.0, 1e10, -1e10, 2.0**31]
_FLOATS += [2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e19, 3e38, np.inf, -np.inf, np.nan]


def elements(dtype: DType) -> np.ndarray:
    """Ordinary elements of a type, and those at its limits; an odd number of them."""
    with np.errstate(all="ignore"):
        if dtype.is_float:
            fine = np.random.default_rng(3).normal(0, 300, 48)
            doubles = [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-30, 1 + 2.0**-11 - 2.0**-40]
            return np.array([*_FLOATS, *fine, *doubles], np.float64).astype(dtype.numpy)
        if dtype is DType.BOOL:
            return np.array([True, False, True])
        limits = np.iinfo(dtype.name.lower())
        near = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 2, 7, 100]
        return np.array([*near, limits.max // 3, limits.max // 2 + 1], dtype.numpy)


def check(cases: Cases, target: str, threads: int = 1) -> None:
    """Native results are the records', bit for bit but for what NaN looks like."""
    chosen, graph = runnable(target), cases.graph()
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    results = run_native(graph, cases.inputs, chosen, threads)
    wanted = evaluate_graph(graph, cases.inputs)
    for tensor, got, expected in zip(graph.outputs, results, wanted, strict=True):
        assert got.dtype == expected.dtype
        is_float = got.dtype.kind == "f"
        assert np.array_equal(got, expected, equal_nan=is_float), tensor
        if is_float:
            numbers = ~np.isnan(expected)
            assert np.array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers])), tensor


@each_target
@pytest.mark.parametrize("source", quick_of(CASTABLE, QUICK))
def test_casts_equal_the_record(target: str, source: str) -> None:
    cases = Cases()
    data = elements(DType(source))
    for result in CASTABLE:
        cases.op("CAST", [cases.given(data)], dtype=DType(result))
    check(cases, target)


@each_target
def test_half_precision_becomes_float(target: str) -> None:
    cases = Cases()
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    halves = every[~np.isnan(every)].reshape(-1, 2)
    cases.op("DEQUANTIZE", [cases.given(halves)], dtype=DType.FLOAT32)
    cases.op("CAST", [cases.given(halves)], dtype=DType.FLOAT64)
    check(cases, target, threads=2)


@each_target
def test_parts_of_one_channel_become_half_precision(target: str) -> None:
    cases = Cases()
    image = cases.data(DType.FLOAT32, (1, 2, 3, 2))
    axis = cases.constant(np.array(3, np.int32))
    parts = [Tensor(f"part{number}", DType.FLOAT32, (1, 2, 3, 1)) for number in range(2)]
    for part in cases.builder.op_many("SPLIT", [axis, image], parts, SplitAttrs(2)):
        cases.op("CAST", [part], dtype=DType.FLOAT16)
    check(cases, target)
