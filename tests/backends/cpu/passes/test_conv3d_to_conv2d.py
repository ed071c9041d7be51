"""Convolutions of volumes as convolutions of images: the same results from other kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType, Graph
from circlet.ops.evaluate import evaluate_graph
from tests.backends.cpu.cases import Cases
from tests.backends.cpu.harness import run_native
from tests.windows import conv3d_attrs

F32 = DType.FLOAT32
# Padding, steps down the depth and over the planes, taps, dilation of the depth.
VOLUMES = [
    ("SAME", (1, 1), (3, 3, 3), 1),
    ("SAME", (2, 2), (3, 3, 2), 1),
    ("VALID", (1, 2), (1, 3, 3), 1),
    ("VALID", (2, 1), (1, 1, 1), 1),
    ("VALID", (2, 1), (2, 1, 3), 2),
    ("SAME", (3, 1), (2, 3, 3), 1),
]


def _network(padding: str, steps: tuple[int, int], taps: tuple[int, int, int], rate: int) -> Cases:
    cases = Cases()
    x = cases.data(F32, (2, 7, 6, 9, 5))
    w = cases.constant(cases.values(F32, (*taps, 5, 19), 0.3))
    bias = cases.constant(cases.values(F32, (19,)))
    attrs = conv3d_attrs(padding, steps[0], steps[1], steps[1], "RELU", dilation_d=rate)
    cases.op("CONV_3D", [x, w, bias], attrs)
    return cases


def _converted(graph: Graph) -> Graph:
    made = replace(graph, ops=list(graph.ops))
    assert PASSES.make("conv3d-to-conv2d").run(made)
    return made


@pytest.mark.parametrize("volume", VOLUMES, ids=str)
def test_images_give_the_volume(
    volume: tuple[str, tuple[int, int], tuple[int, int, int], int],
) -> None:
    cases = _network(*volume)
    graph = cases.graph()
    images = _converted(graph)
    kinds = {op.kind for op in images.ops}
    assert "CONV_2D" in kinds and "CONV_3D" not in kinds
    (wanted,) = evaluate_graph(graph, cases.inputs)
    (replayed,) = evaluate_graph(images, cases.inputs)
    np.testing.assert_allclose(replayed, wanted, rtol=0, atol=2e-5)
    (got,) = run_native(images, cases.inputs, "native", threads=2)
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_new_ops_keep_the_origin() -> None:
    graph = _network(*VOLUMES[1]).graph()
    (volume,) = graph.ops
    assert {op.origin for op in _converted(graph).ops} == {volume.origin}


def test_weights_of_run_time_stay() -> None:
    cases = Cases()
    x, w = cases.data(F32, (1, 3, 4, 4, 2)), cases.data(F32, (2, 2, 2, 2, 3))
    cases.op("CONV_3D", [x, w], conv3d_attrs("SAME", 1, 1, 1))
    assert not PASSES.make("conv3d-to-conv2d").run(cases.graph())
