"""Sums of stored integers are scaled once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType, Graph
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.passes import PassManager
from tests.backends.cpu.cases import Cases, each_width
from tests.backends.cpu.harness import run_native, runnable

SCALE = np.float32(0.07)


def sums(
    kind: str = "MEAN",
    dtype: DType = DType.UINT8,
    zero: int = 119,
    axes: tuple[int, ...] = (2, 3),
    shape: tuple[int, ...] = (1, 5, 9, 11),
    scales: int = 1,
) -> Cases:
    """A sum or mean of what DequantizeLinear makes of random bytes."""
    cases = Cases()
    zeros = np.full(scales, zero, dtype.numpy)
    pair = [cases.constant(np.full(scales, SCALE)), cases.constant(zeros)]
    if scales == 1:
        pair = [cases.constant(SCALE), cases.constant(zeros.reshape(()))]
    stored = [cases.data(dtype, shape, None), *pair]
    code = "onnx.DequantizeLinear"
    real = cases.op("CUSTOM", stored, OnnxAttrs(), dtype=DType.FLOAT32, custom_code=code)
    over = cases.constant(np.array(axes, np.int32))
    cases.outputs = [cases.op(kind, [real, over], ReducerAttrs(True))]
    return cases


def scaled(cases: Cases) -> Graph:
    """The sum of the integers."""
    graph = cases.graph()
    assert PassManager((PASSES.made(["scale-sums"], {})[0],), check=True).run(graph).applied
    return graph


def read_twice() -> Cases:
    cases = sums()
    cases.outputs.append(cases.builder.graph.ops[0].outputs[0])
    return cases


@each_width
@pytest.mark.parametrize("kind", ["MEAN", "SUM"])
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8], ids=["uint8", "int8"])
def test_sums_are_exact_and_rounded_once(kind: str, dtype: DType, target: str) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    for zero in (0, 119):
        for axes in ((2, 3), (1,), (0, 1, 2, 3)):
            cases = sums(kind, dtype, zero, axes)
            graph = scaled(cases)
            assert [op.kind for op in graph.ops] == ["CAST", "SUM", *["SUB"] * (zero > 0), "MUL"]
            (x,) = cases.inputs
            total = (x.astype(np.int64) - zero).sum(axes, keepdims=True)
            count = x.size // total.size if kind == "MEAN" else 1
            wanted = total * np.float64(SCALE) / count
            for got in (evaluate_graph(graph, cases.inputs), run_native(graph, [x], target)):
                np.testing.assert_allclose(got[0], wanted, rtol=2e-7, atol=0)


@pytest.mark.parametrize(
    "make",
    [
        read_twice,
        lambda: sums(shape=(1, 1, 1 << 9, 129)),
        lambda: sums(scales=5),
    ],
    ids=["read twice", "more than a float holds", "scales of an axis"],
)
def test_other_sums_stay(make: Callable[[], Cases]) -> None:
    assert not PASSES.made(["scale-sums"], {})[0].run(make().graph())
