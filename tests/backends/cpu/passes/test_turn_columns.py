"""Convolutions down a single column are those along a row, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType
from circlet.ops.evaluate import evaluate_graph
from circlet.passes import PassManager
from tests.backends.cpu.cases import Cases, each_width
from tests.backends.cpu.harness import run_native, runnable
from tests.windows import conv2d_attrs, depthwise_attrs

F32 = DType.FLOAT32


def _signals(padding: str, stride: int, dilation: int) -> Cases:
    """Two convolutions and a depthwise one, of which each reads what the one before made."""
    cases = Cases()
    ways = ("NONE", dilation, dilation)
    x = cases.data(F32, (2, 90, 1, 5))
    weights = cases.constant(cases.values(F32, (16, 5, 1, 5), 0.3))
    weights.default_shape = weights.static_shape
    bias = cases.constant(cases.values(F32, (16,)))
    y = cases.op("CONV_2D", [x, weights, bias], conv2d_attrs(padding, stride, stride, *ways))
    taps = cases.constant(cases.values(F32, (1, 3, 1, 16), 0.3))
    z = cases.op("DEPTHWISE_CONV_2D", [y, taps, bias], depthwise_attrs(padding, 1, 1))
    last = cases.constant(cases.values(F32, (4, 2, 1, 16), 0.3))
    cases.op("CONV_2D", [z, last, None], conv2d_attrs(padding, 1, 1))
    return cases


@each_width
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 3)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_what_is_turned_gives_the_same(
    target: str, padding: str, stride: int, dilation: int
) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = _signals(padding, stride, dilation)
    graph = cases.graph()
    wanted = evaluate_graph(graph, cases.inputs)
    assert PassManager((PASSES.made(["turn-columns"], {})[0],), check=True).run(graph).applied
    shapes = [op.outputs[0].static_shape for op in graph.ops if op.kind != "RESHAPE"]
    assert all(shape[1] == 1 and shape[2] > 1 for shape in shapes)
    assert [op.kind for op in graph.ops].count("RESHAPE") == 4
    for got, want in zip(evaluate_graph(graph, cases.inputs), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(run_native(graph, cases.inputs, target, 2), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_images_and_windows_across_stay() -> None:
    cases = Cases()
    some = (((1, 40, 2, 3), (2, 1)), ((1, 40, 1, 3), (1, 1)), ((1, 40, 1, 3), (3, 3)))
    for shape, taps in (*some, ((1, 20, 1, 3), (2, 1))):
        weights = cases.constant(cases.values(F32, (4, *taps, 3)))
        cases.op("CONV_2D", [cases.data(F32, shape), weights, None], conv2d_attrs("SAME"))
    graph = cases.graph()
    assert not PASSES.made(["turn-columns"], {})[0].run(graph)
