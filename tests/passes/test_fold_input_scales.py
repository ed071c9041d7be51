from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.geometry import SAME_UPPER, Padding
from circlet.passes import make
from tests.passes.harness import rewritten

RNG = np.random.default_rng(5)


def constant(b: Builder, *shape: int) -> Tensor:
    return b.constant(f"c{shape}", RNG.uniform(0.5, 2, shape).astype(np.float32))


def before(b: Builder, *kinds: str, shape: tuple[int, ...]) -> Tensor:
    tensor = b.input("x", DType.FLOAT32, shape)
    for number, kind in enumerate(kinds):
        tensor = b.op(kind, [tensor, constant(b, shape[-1])], name=f"{kind}{number}")
    return tensor


def product(b: Builder, x: Tensor, kind: str, padding: Padding) -> Tensor:
    if kind == "FULLY_CONNECTED":
        return b.op(kind, [x, constant(b, 8, 4), None], name="y")
    if kind == "CONV_2D":
        return b.op(kind, [x, constant(b, 8, 3, 3, 4), None], Conv2DAttrs(padding), name="y")
    attrs = DepthwiseConv2DAttrs(padding)
    return b.op(kind, [x, constant(b, 1, 3, 3, 8), constant(b, 8)], attrs, name="y")


@pytest.mark.parametrize("kinds", [["MUL", "ADD"], ["SUB", "DIV"], ["ADD"]])
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_a_normalisation_goes_into_the_product_behind_it(kind: str, kinds: list[str]) -> None:
    b = builder()
    x = before(b, *kinds, shape=(3, 4) if kind == "FULLY_CONNECTED" else (1, 5, 5, 4))
    graph = b.output(product(b, x, kind, ((0, 0), (0, 0)))).build()
    assert rewritten(graph, "fold-input-scales", tolerance=1e-5) == [kind]


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_an_offset_that_paddings_do_not_get_stays(kind: str) -> None:
    b = builder()
    x = before(b, "ADD", "MUL", shape=(1, 5, 5, 4))
    graph = b.output(product(b, x, kind, SAME_UPPER)).build()
    assert rewritten(graph, "fold-input-scales", tolerance=1e-5) == ["ADD", kind]


def test_scales_that_others_read_and_scales_of_groups_stay() -> None:
    b = builder()
    x = before(b, "MUL", shape=(3, 4))
    graph = b.output(product(b, x, "FULLY_CONNECTED", SAME_UPPER), x).build()
    assert rewritten(graph, "fold-input-scales", tolerance=1e-5) == ["MUL", "FULLY_CONNECTED"]
    b = builder()
    x = before(b, "MUL", shape=(1, 5, 5, 8))
    y = b.op("CONV_2D", [x, constant(b, 8, 3, 3, 4), None], Conv2DAttrs(), name="y")
    assert rewritten(b.output(y).build(), "fold-input-scales", tolerance=1e-5) == ["MUL", "CONV_2D"]


def test_a_scale_that_divides_by_zero_stays() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (3, 4))
    zero = b.constant("zero", np.array([1, 0, 1, 1], np.float32))
    y = b.op("FULLY_CONNECTED", [b.op("DIV", [x, zero], name="t"), constant(b, 8, 4), None])
    assert not make("fold-input-scales").run(b.output(y).build())
