"""Chains of layers that run stripe by stripe: their results are those of the layers one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.passes import PASSES
from circlet.backends.cpu.passes.stripes import StripeFusion, copy_inputs, stripe_edges
from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fused import FUSED_STRIPE
from circlet.ops.layout import ConcatenationAttrs
from circlet.passes import Rewriter
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Cases, Network, SideBySide, each_target
from tests.backends.cpu.harness import run_native
from tests.tiers import slow
from tests.windows import conv2d_attrs, depthwise_attrs

F32, I8, U8 = DType.FLOAT32, DType.INT8, DType.UINT8
ZEROS = {I8: -3, U8: 131}


class Layers:
    """Builds layers of one type over images."""

    def __init__(self, cases: Cases, dtype: DType) -> None:
        self.cases, self.dtype = cases, dtype

    def image(self, *shape: int) -> Tensor:
        """An input."""
        if self.dtype is F32:
            return self.cases.data(F32, shape, scale=1.0)
        return self.cases.data(self.dtype, shape, self._quant())

    def conv(
        self,
        x: Tensor,
        filters: int,
        size: int = 1,
        stride: int = 1,
        padding: str = "SAME",
        fused: str = "NONE",
    ) -> Tensor:
        """A CONV_2D."""
        channels = x.static_shape[3]
        attrs = conv2d_attrs(padding, stride, stride, fused, 1, 1)
        return self._layer("CONV_2D", x, (filters, size, size, channels), filters, attrs)

    def depthwise(
        self,
        x: Tensor,
        size: int = 3,
        stride: int = 1,
        padding: str = "SAME",
        dilation: int = 1,
        fused: str = "NONE",
    ) -> Tensor:
        """A DEPTHWISE_CONV_2D of one map per channel."""
        channels = x.static_shape[3]
        attrs = depthwise_attrs(padding, stride, stride, 1, fused, dilation, dilation)
        return self._layer("DEPTHWISE_CONV_2D", x, (1, size, size, channels), channels, attrs)

    def done(self, x: Tensor) -> None:
        """Compare an image."""
        self.cases.outputs.append(x)

    def _layer(
        self, kind: str, x: Tensor, shape: tuple[int, ...], filters: int, attrs: object
    ) -> Tensor:
        case = self.cases
        if self.dtype is F32:
            weights = case.constant(case.values(F32, shape, 0.3))
            operands = [x, weights, case.constant(case.values(F32, (filters,)))]
            return case.builder.op(kind, operands, attrs)
        scale = 0.004 if kind == "CONV_2D" else 0.02
        zero = 120 if self.dtype is U8 else 0
        weights = case.constant(
            case.values(self.dtype, shape), Quantization.per_tensor(scale, zero)
        )
        values = case.values(DType.INT16, (filters,)).astype(np.int32) // 8
        bias = case.constant(values, Quantization.per_tensor(0.05 * scale, 0))
        return case.builder.op(kind, [x, weights, bias], attrs, quant=self._quant())

    def _quant(self) -> Quantization:
        return Quantization.per_tensor(0.05, ZEROS[self.dtype])


def _expanded(layers: Layers) -> None:
    x = layers.conv(layers.image(1, 13, 11, 8), 24, fused="RELU6")
    layers.done(layers.conv(layers.depthwise(x, fused="RELU6"), 10))


def _strided(layers: Layers) -> None:
    x = layers.conv(layers.image(1, 19, 22, 5), 20)
    layers.done(layers.conv(layers.depthwise(x, stride=2), 7))


def _separable(layers: Layers) -> None:
    x = layers.depthwise(layers.image(1, 12, 9, 19), fused="RELU")
    layers.done(layers.conv(x, 33))


def _valid(layers: Layers) -> None:
    x = layers.conv(layers.image(1, 17, 18, 6), 16)
    layers.done(layers.conv(layers.depthwise(x, 5, 2, "VALID"), 4, padding="VALID"))


def _deep(layers: Layers) -> None:
    x = layers.depthwise(layers.image(1, 21, 14, 16), stride=2)
    x = layers.depthwise(layers.conv(x, 32), 5)
    layers.done(layers.conv(x, 12))


def _from_pixels(layers: Layers) -> None:
    x = layers.conv(layers.image(1, 23, 21, 3), 8, 3, 2, fused="RELU6")
    layers.done(layers.conv(layers.depthwise(x), 16))


def _apart(layers: Layers) -> None:
    """Rows of a window of so many channels find no room in the first cache side by side."""
    x = layers.depthwise(layers.conv(layers.image(1, 7, 70, 4), 128))
    layers.done(layers.conv(layers.depthwise(x, stride=2), 3))


def _dilated(layers: Layers) -> None:
    x = layers.conv(layers.image(1, 15, 16, 8), 16)
    layers.done(layers.depthwise(x, dilation=2))


def _images(layers: Layers) -> None:
    x = layers.conv(layers.image(3, 9, 10, 4), 16)
    layers.done(layers.conv(layers.depthwise(x), 8))


def _inside(layers: Layers) -> None:
    x = layers.image(1, 12, 12, 16)
    parts = [layers.conv(layers.depthwise(x), 24), layers.conv(layers.depthwise(x), 8)]
    layers.done(layers.cases.builder.op("CONCATENATION", parts, ConcatenationAttrs(3)))


CHAINS: dict[str, Callable[[Layers], None]] = {
    "expanded": _expanded,
    "strided": _strided,
    "separable": _separable,
    "valid": _valid,
    "deep": _deep,
    "from_pixels": _from_pixels,
    "apart": _apart,
    "dilated": _dilated,
    "images": _images,
    "inside": _inside,
}


CHAINS_OF_U8 = ("expanded", "valid", "from_pixels", "inside")  # those with borders of each kind


def _network(dtype: DType) -> Network:
    cases = Cases()
    for name in CHAINS_OF_U8 if dtype is U8 else CHAINS:
        CHAINS[name](Layers(cases, dtype))
    return cases.graph(), cases.inputs


def _striped(graph: Graph, buffer_bytes: int, *, copies: bool = False) -> Graph:
    made = replace(graph, ops=list(graph.ops), tensors=list(graph.tensors))
    rewriter = Rewriter(made)
    edges = copy_inputs(rewriter) if copies else []
    StripeFusion(9, buffer_bytes).fuse(rewriter, [*edges, *stripe_edges(rewriter)])
    rewriter.finish()
    return made


BUFFER_BYTES = {I8: 0, U8: 1 << 12, F32: 1 << 12}


def _in_stripes(dtype: DType) -> Network:
    graph, inputs = _network(dtype)
    return _striped(graph, BUFFER_BYTES[dtype], copies=dtype is not I8), inputs


def _either(is_striped: bool) -> Network:
    return _in_stripes(F32) if is_striped else _network(F32)


BYTES = {n: SideBySide((I8, U8), _in_stripes, apart=[U8], threads=n) for n in (1, 2, 3)}
FLOATS = {n: SideBySide((False, True), _either, threads=n) for n in (1, 2)}


@each_target
@pytest.mark.parametrize("dtype", [I8, *slow(U8)])
def test_stripes_of_bytes_equal_the_records(dtype: DType, target: str) -> None:
    striped, inputs = _in_stripes(dtype)
    assert {op.kind for op in striped.ops} == {FUSED_STRIPE, "CONCATENATION"}
    wanted = evaluate_graph(_network(dtype)[0], inputs)
    for each in BYTES.values():
        for got, known in zip(each.outputs(dtype, target), wanted, strict=True):
            np.testing.assert_array_equal(got, known)


@each_target
def test_stripes_of_floats_equal_their_layers(target: str) -> None:
    wanted = FLOATS[2].outputs(False, target)
    for each in FLOATS.values():
        for got, known in zip(each.outputs(True, target), wanted, strict=True):
            np.testing.assert_array_equal(got, known)


def _residual(rows: int) -> tuple[Graph, list[np.ndarray]]:
    cases = Cases()
    layers = Layers(cases, F32)
    x, added = layers.image(2, 14, 10, 12), layers.image(2, rows, 10 if rows > 1 else 1, 12)
    y = layers.conv(layers.depthwise(layers.conv(x, 40)), 12)
    cases.op("ADD", [y, added], AddAttrs("RELU"))
    return cases.graph(), cases.inputs


@pytest.mark.parametrize("rows", [14, 1])
def test_the_last_layer_of_a_chain_may_add(rows: int) -> None:
    graph, inputs = _residual(rows)
    PASSES.make("fuse-residual").run(graph)
    striped = _striped(graph, 0)
    assert [op.kind for op in striped.ops] == [FUSED_STRIPE]
    (wanted,), (got,) = (run_native(each, inputs, threads=2) for each in (graph, striped))
    np.testing.assert_array_equal(got, wanted)


def test_images_between_are_not_in_the_arena() -> None:
    cases = Cases()
    _expanded(Layers(cases, F32))
    graph = cases.graph()

    def arena(each: Graph) -> int:
        (whole,) = partition(each, dict.fromkeys(each.ops, "cpu"))
        return compile_partition(whole, parse_target("native"), 1).memory.arena_bytes

    assert arena(_striped(graph, 0)) == 0 < 13 * 11 * 24 * 4 < arena(graph)


def test_an_operator_of_a_chain_keeps_its_names() -> None:
    graph, _ = _network(F32)
    names = {source.name for op in graph.ops for source in op.origin.sources}
    striped = _striped(graph, 0)
    assert {source.name for op in striped.ops for source in op.origin.sources} == names
