"""Scales and offsets of channels go into the weights before them, where nothing else sees them."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.passes import make
from tests.passes.harness import rewritten

RNG = np.random.default_rng(3)


def constant(b: Builder, *shape: int) -> Tensor:
    return b.constant(f"c{shape}", RNG.uniform(0.5, 2, shape).astype(np.float32))


def product(b: Builder, kind: str, *, bias: bool = True) -> Tensor:
    if kind == "FULLY_CONNECTED":
        x = b.input("x", DType.FLOAT32, (3, 6))
        inputs = [x, constant(b, 8, 6), constant(b, 8) if bias else None]
        return b.op(kind, inputs, FullyConnectedAttrs(), name="product")
    x = b.input("x", DType.FLOAT32, (1, 5, 5, 8))
    weights = constant(b, 8, 3, 3, 8) if kind == "CONV_2D" else constant(b, 1, 3, 3, 8)
    attrs = Conv2DAttrs() if kind == "CONV_2D" else DepthwiseConv2DAttrs()
    inputs = [x, weights, constant(b, 8) if bias else None]
    return b.op(kind, inputs, attrs, name="product")


def folded(graph: Graph) -> list[str]:
    return rewritten(graph, "fold-scales", tolerance=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_a_normalisation_goes_into_the_product(kind: str, bias: bool) -> None:
    b = builder()
    scaled = b.op("MUL", [product(b, kind, bias=bias), constant(b, 8)], name="scale")
    moved = b.op("ADD", [constant(b, 8), scaled], name="offset")
    assert folded(b.output(b.op("SUB", [moved, constant(b, 1)], name="less")).build()) == [kind]


def test_what_others_read_stays() -> None:
    b = builder()
    made = product(b, "CONV_2D")
    scaled = b.op("MUL", [made, constant(b, 8)], name="scale")
    graph = b.output(scaled, b.op("ADD", [made, made], name="other")).build()
    assert folded(graph) == ["CONV_2D", "MUL", "ADD"]


def test_scales_of_pixels_and_negated_products_stay() -> None:
    b = builder()
    scaled = b.op("MUL", [product(b, "CONV_2D"), constant(b, 3, 1)], name="scale")
    graph = b.output(b.op("SUB", [constant(b, 8), scaled], name="less")).build()
    assert folded(graph) == ["CONV_2D", "MUL", "SUB"]


def test_a_divisor_of_channels_goes_into_the_product_and_a_divided_constant_stays() -> None:
    b = builder()
    made = product(b, "CONV_2D")
    assert folded(b.output(b.op("DIV", [made, constant(b, 8)], name="y")).build()) == ["CONV_2D"]
    b = builder()
    made = product(b, "CONV_2D")
    graph = b.output(b.op("DIV", [constant(b, 8), made], name="y")).build()
    assert folded(graph) == ["CONV_2D", "DIV"]


@pytest.mark.parametrize("copies", [True, False])
def test_weights_that_others_read_are_copied_where_that_is_allowed(copies: bool) -> None:
    b = builder()
    x, w = b.input("x", DType.FLOAT32, (3, 6)), constant(b, 8, 6)
    made = b.op("FULLY_CONNECTED", [x, w, None], name="first")
    other = b.op("FULLY_CONNECTED", [x, w, None], name="second")
    graph = b.output(b.op("MUL", [made, constant(b, 8)], name="scaled"), other).build()
    assert make("fold-scales", copies=copies).run(graph) is copies
