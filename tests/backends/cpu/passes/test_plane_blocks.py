"""Blocks of planes become planes, and back, by one transpose."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType
from circlet.ops import NoAttrs
from circlet.ops.blocks import DepthAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.passes import PassManager
from tests.backends.cpu.cases import QUANT, Cases, each_width
from tests.backends.cpu.harness import run_native, runnable

TO_PLANES, TO_PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)


def blocks(kind: str, dtype: DType, shape: tuple[int, ...], side: int, *, twice: bool) -> Cases:
    """Planes, turned to pixels, in or out of blocks, and back; the middle is read twice or not."""
    cases = Cases()
    quant = None if dtype.is_float else QUANT
    x = cases.data(dtype, shape)
    orders = [cases.constant(np.array(order, np.int32)) for order in (TO_PIXELS, TO_PLANES)]
    turned = cases.op("TRANSPOSE", [x, orders[0]], NoAttrs(), quant=quant)
    made = cases.op(kind, [turned], DepthAttrs(side), quant=quant)
    back = cases.op("TRANSPOSE", [made, orders[1]], NoAttrs(), quant=quant)
    cases.outputs = [back, made] if twice else [back]
    return cases


@each_width
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT8], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(
    ("kind", "shape", "side"),
    [
        ("SPACE_TO_DEPTH", (1, 3, 22, 54), 2),
        ("SPACE_TO_DEPTH", (2, 5, 9, 93), 3),
        ("DEPTH_TO_SPACE", (1, 12, 7, 29), 2),
        ("DEPTH_TO_SPACE", (2, 16, 5, 33), 4),
    ],
)
def test_blocks_of_planes_are_the_same(
    kind: str, shape: tuple[int, ...], side: int, dtype: DType, target: str
) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = blocks(kind, dtype, shape, side, twice=False)
    graph = cases.graph()
    wanted = evaluate_graph(graph, cases.inputs)
    assert PassManager((PASSES.made(["by-planes"], {})[0],), check=True).run(graph).applied
    assert [op.kind for op in graph.ops] == ["RESHAPE", "TRANSPOSE", "RESHAPE"]
    for made in (
        evaluate_graph(graph, cases.inputs),
        run_native(graph, cases.inputs, target, 2),
    ):
        np.testing.assert_array_equal(made[0], wanted[0])


@pytest.mark.parametrize(("width", "twice"), [(64, True), (40, False)])
def test_pixels_that_are_read_and_narrow_planes_stay(width: int, twice: bool) -> None:
    cases = blocks("SPACE_TO_DEPTH", DType.FLOAT32, (1, 3, 4, width), 2, twice=twice)
    assert not PASSES.made(["by-planes"], {})[0].run(cases.graph())
