"""Pyramid pooling: a pixel spread over an image is convolved once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES, native_pipeline
from circlet.ir import DType, Graph, Tensor
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.geometry import Padding
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.resize import ResizeAttrs
from tests.backends.cpu.cases import Cases
from tests.backends.cpu.harness import run_native
from tests.windows import conv2d_attrs

F32 = DType.FLOAT32


@dataclass(frozen=True)
class _Case:
    """Where the pixel stands among the joined images, and what is joined and convolved."""

    position: int = 0
    images: int = 1
    pixels: int = 1
    batch: int = 1
    window: int = 1
    size: int = 6
    bias: bool = True
    padding: Padding | None = None


def _network(case: _Case) -> tuple[Cases, Tensor]:
    """The network and the image that the pixel is spread to."""
    cases = Cases()
    op, size = cases.builder.op, case.size
    parts = [cases.data(F32, (case.batch, size, size, 5 + i)) for i in range(case.images)]
    sizes = cases.constant(np.array([size, size], np.int32))
    for _ in range(case.pixels):
        pixel = cases.data(F32, (case.batch, 1, 1, 7))
        spread = op("RESIZE_BILINEAR", [pixel, sizes], ResizeAttrs())
        parts.insert(case.position, spread)
    joined = op("CONCATENATION", parts, ConcatenationAttrs(axis=3))
    shape = (9, case.window, case.window, joined.static_shape[3])
    operands = [joined, cases.constant(cases.values(F32, shape, 0.2))]
    if case.bias:
        operands.append(cases.constant(cases.values(F32, (9,))))
    attrs = conv2d_attrs("SAME", 1, 1, "RELU", 1, 1)
    if case.padding is not None:
        attrs = replace(attrs, padding=case.padding)
    cases.op("CONV_2D", operands, attrs)
    return cases, spread


def _split(graph: Graph) -> Graph:
    made = replace(graph, ops=list(graph.ops))
    PASSES.make("split-broadcast-pixel").run(made)
    return made


@pytest.mark.parametrize(
    "case",
    [_Case(), _Case(position=1), _Case(batch=3), _Case(position=1, images=2)],
    ids=["first", "last", "images", "between"],
)
def test_split_network_gives_the_same(case: _Case) -> None:
    cases, _ = _network(case)
    graph = cases.graph()
    split = _split(graph)
    kinds = [op.kind for op in split.ops if op.kind != "CONCATENATION"]
    assert kinds == ["CONV_2D", "CONV_2D", "ADD"]
    assert all(op.origin.name for op in split.ops)
    native_pipeline("O2", check=True).run(split)
    assert [op.kind for op in split.ops][-2:] == ["CONV_2D", "FUSED_RESIDUAL"]
    (wanted,) = evaluate_graph(graph, cases.inputs)
    (got,) = run_native(split, cases.inputs)
    assert np.abs(got - wanted).max() <= 1e-5 * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize(
    "case",
    [
        _Case(window=3),
        _Case(images=0),
        _Case(pixels=2),
        _Case(size=3),
        _Case(bias=False),
        _Case(padding=((1, 0), (0, 2))),
    ],
    ids=["window", "pixel_alone", "two_pixels", "small_image", "no_bias", "padding"],
)
def test_other_networks_stay(case: _Case) -> None:
    graph = _network(case)[0].graph()
    assert [op.kind for op in _split(graph).ops] == [op.kind for op in graph.ops]


def test_image_that_others_read_is_still_made() -> None:
    cases, spread = _network(_Case())
    cases.op("EXP", [spread])
    kinds = [op.kind for op in _split(cases.graph()).ops]
    assert "RESIZE_BILINEAR" in kinds and "CONCATENATION" not in kinds
