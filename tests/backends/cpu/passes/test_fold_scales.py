"""Scales and offsets of channels go into the weights before them, where nothing else sees them."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType, Graph, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.verify import verify
from tests.evaluate import evaluate, random_inputs
from tests.passes.harness import kinds_of, source_names

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
    verify(graph)
    inputs, sources = random_inputs(graph), source_names(graph)
    wanted = evaluate(graph, inputs)
    PASSES.make("fold-scales").run(graph)
    verify(graph)
    assert source_names(graph) == sources
    for got, want in zip(evaluate(graph, inputs), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
    return kinds_of(graph)


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
