"""Images that lie with channels first are resized and pooled plane by plane, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType, Tensor
from circlet.ops import NoAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.resize import ResizeAttrs
from circlet.passes import PassManager
from tests.backends.cpu.cases import QUANT, Cases, each_width
from tests.backends.cpu.harness import run_native, runnable
from tests.windows import pool_attrs

TO_PLANES, TO_PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)
POOLS = {
    "of one row, where they are": ((2, 3, 1, 63), pool_attrs("VALID", 2, 1, 2, 1)),
    "in steps of two, where they are": ((2, 3, 9, 25), pool_attrs("VALID", 2, 2, 2, 3)),
    "side by side, where they are": ((1, 5, 8, 19), pool_attrs("VALID", 1, 1, 3, 2, "RELU6")),
    "over borders, in steps of two": ((2, 3, 11, 33), pool_attrs("SAME", 2, 2, 3, 3)),
    "of odd widths, to the last pixel": ((1, 2, 8, 33), pool_attrs("VALID", 2, 2, 5, 2)),
    "of odd widths, in steps of two": ((1, 2, 9, 71), pool_attrs("VALID", 2, 1, 3, 3)),
    "over borders, side by side": ((1, 3, 7, 37), pool_attrs("SAME", 1, 1, 5, 5, "RELU_N1_TO_1")),
    "of few rows": ((2, 2, 2, 40), pool_attrs("SAME", 1, 2, 4, 7)),
    "that skip rows": ((1, 3, 13, 33), pool_attrs("VALID", 2, 2, 1, 1)),
}


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


def pooled(kind: str, shape: tuple[int, ...], attrs: Pool2DAttrs) -> Cases:
    """Planes, pooled as an image with channels last."""
    cases = Cases()
    x = _turned(cases, cases.data(DType.FLOAT32, shape), TO_PIXELS)
    cases.outputs = [_turned(cases, cases.op(kind, [x], attrs), TO_PLANES)]
    return cases


def _turned(cases: Cases, x: Tensor, order: tuple[int, ...]) -> Tensor:
    axes = cases.constant(np.array(order, np.int32))
    return cases.op("TRANSPOSE", [x, axes], NoAttrs(), quant=QUANT)


@each_width
@pytest.mark.parametrize("is_turned", [False, True])
def test_planes_are_resized_to_the_same(target: str, is_turned: bool) -> None:
    cases = resized((2, 3, 5, 37) if is_turned else (2, 5, 37, 3), (10, 74), is_turned=is_turned)
    ahead = [] if is_turned else ["TRANSPOSE"]
    _check(cases, target, [*ahead, "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "RESHAPE"])


@each_width
@pytest.mark.parametrize("kind", ["MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"])
@pytest.mark.parametrize("name", POOLS)
def test_planes_are_pooled_to_the_same(target: str, kind: str, name: str) -> None:
    _check(pooled(kind, *POOLS[name]), target, ["RESHAPE", kind, "RESHAPE"])


def test_narrow_planes_are_turned() -> None:
    graph = pooled("MAX_POOL_2D", (1, 16, 7, 7), pool_attrs("SAME", 1, 1, 3, 3)).graph()
    assert not PASSES.made(["by-planes"], {})[0].run(graph)


def _check(cases: Cases, target: str, kinds: list[str]) -> None:
    """The pass leaves ops of these kinds, of the same bits as those before, by records and by C."""
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph = cases.graph()
    engines: tuple[Callable[[], list[np.ndarray]], ...] = (
        lambda: evaluate_graph(graph, cases.inputs),
        lambda: run_native(graph, cases.inputs, target, 2),
    )
    before = [run() for run in engines]
    assert PassManager((PASSES.made(["by-planes"], {})[0],), check=True).run(graph).applied
    assert [op.kind for op in graph.ops] == kinds
    for run, (wanted,) in zip(engines, before, strict=True):
        np.testing.assert_array_equal(run()[0], wanted)


def test_images_that_shrink_are_turned_behind() -> None:
    graph = resized((1, 8, 8, 3), (4, 4), is_turned=False).graph()
    assert not PASSES.made(["by-planes"], {})[0].run(graph)
