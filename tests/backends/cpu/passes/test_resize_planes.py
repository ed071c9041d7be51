"""Images that are wanted with channels first are resized plane by plane, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType, Tensor
from circlet.ops import NoAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.resize import ResizeAttrs
from circlet.passes import PassManager
from tests.backends.cpu.cases import QUANT, Cases, each_width
from tests.backends.cpu.harness import run_native, runnable

TO_PLANES, TO_PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)


def resized(shape: tuple[int, ...], size: tuple[int, int], *, is_turned: bool) -> Cases:
    """An image with channels last, or turned so that they are, resized and turned back."""
    cases = Cases()
    x = cases.data(DType.INT8, shape)
    if is_turned:
        x = _turned(cases, x, TO_PIXELS)
    wanted = cases.constant(np.array(size, np.int32))
    made = cases.op("RESIZE_NEAREST_NEIGHBOR", [x, wanted], ResizeAttrs(), quant=QUANT)
    cases.outputs = [_turned(cases, made, TO_PLANES)]
    return cases


def _turned(cases: Cases, x: Tensor, order: tuple[int, ...]) -> Tensor:
    axes = cases.constant(np.array(order, np.int32))
    return cases.op("TRANSPOSE", [x, axes], NoAttrs(), quant=QUANT)


@each_width
@pytest.mark.parametrize("is_turned", [False, True])
def test_planes_are_resized_to_the_same(target: str, is_turned: bool) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = resized((2, 3, 5, 37) if is_turned else (2, 5, 37, 3), (10, 74), is_turned=is_turned)
    graph = cases.graph()
    wanted = evaluate_graph(graph, cases.inputs)
    assert PassManager((PASSES.made(["resize-planes"], {})[0],), check=True).run(graph).applied
    ahead = [] if is_turned else ["TRANSPOSE"]
    kinds = [op.kind for op in graph.ops]
    assert kinds == [*ahead, "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "RESHAPE"]
    for results in (
        evaluate_graph(graph, cases.inputs),
        run_native(graph, cases.inputs, target, 2),
    ):
        for got, want in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_images_that_shrink_are_turned_behind() -> None:
    graph = resized((1, 8, 8, 3), (4, 4), is_turned=False).graph()
    assert not PASSES.made(["resize-planes"], {})[0].run(graph)
