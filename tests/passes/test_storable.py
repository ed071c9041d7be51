"""Paddings, biases and sizes as files and other engines want them, with equal results."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.commands.storing import make_storable
from circlet.formats import dumps, load
from circlet.ir import Graph
from circlet.ops.build import builder
from circlet.ops.circle_norm import InstanceNormAttrs, RmsNormAttrs
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.geometry import Padding
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs
from circlet.passes import make
from circlet.passes.pipelines import FOR_TFLITE_ENGINES
from tests.passes.harness import kinds_of, rewritten
from tests.passes.networks import F32


def test_a_transposed_convolution_is_cut_out_of_a_larger_one() -> None:
    b = builder()
    x = b.input("x", F32, (1, 4, 4, 2))
    weights = b.constant("w", np.linspace(-1, 1, 54, dtype=np.float32).reshape(3, 3, 3, 2))
    target = b.constant("sizes", np.array([1, 6, 7, 3], np.int32))
    attrs = TransposeConvAttrs(((1, 2), (2, 0)), (2, 2))
    b.output(b.op("TRANSPOSE_CONV", [target, weights, x], attrs))
    assert rewritten(b.graph, "split-padding") == ["TRANSPOSE_CONV", "SLICE"]


def test_what_only_circle_files_hold_is_spelled_out_for_tflite_files() -> None:
    b = builder()
    x = b.input("x", F32, (2, 4, 3, 5))
    lists = [b.constant(name, np.linspace(1, 2, 5, dtype=np.float32)) for name in ("g", "b")]
    normed = b.op("INSTANCE_NORM", [x, *lists], InstanceNormAttrs(1e-5, "RELU"), name="image")
    b.output(b.op("RMS_NORM", [normed, *lists], RmsNormAttrs(1e-6), name="rows"))
    circle = load(dumps(b.model(), "circle"))
    make_storable(circle, "circle")
    assert kinds_of(circle.main) == ["INSTANCE_NORM", "RMS_NORM"]
    make_storable(circle, "tflite")
    kinds = kinds_of(load(dumps(circle, "tflite")).main)
    assert not {"INSTANCE_NORM", "RMS_NORM"} & {*kinds}
    assert rewritten(b.graph, "decompose-for-tflite", tolerance=1e-6) == kinds
    assert {op.name for op in b.graph.ops} == {"image", "rows"}


@pytest.mark.parametrize("padding", ["SAME_UPPER", ((1, 1), (1, 1)), ((0, 0), (0, 0))])
def test_what_files_can_say_stays(padding: Padding) -> None:
    b = builder()
    x = b.input("x", F32, (1, 6, 6, 2))
    weights = b.constant("w", np.ones((1, 3, 3, 2), np.float32))
    bias = b.constant("b", np.ones(2, np.float32))
    b.output(b.op("DEPTHWISE_CONV_2D", [x, weights, bias], DepthwiseConv2DAttrs(padding)))
    assert not _changes(b.graph)


def test_a_bias_of_zeros_is_added_and_sizes_are_said_twice() -> None:
    b = builder()
    x = b.input("x", F32, (2, 1, 1, 6))
    weights = b.constant("w", np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 1, 1, 6))
    convolved = b.op("CONV_2D", [x, weights], Conv2DAttrs())
    target = b.constant("sizes", np.array([8], np.int32))
    b.output(b.op("RESHAPE", [convolved, target]))
    assert rewritten(b.graph, "add-biases", "state-sizes") == ["CONV_2D", "RESHAPE"]
    convolution, reshape = b.graph.ops
    assert convolution.input(2) is not None
    assert reshape.attributes(ReshapeAttrs).new_shape == (8,)
    assert not _changes(b.graph)


def _changes(graph: Graph) -> bool:
    changes = [make(name).run(graph) for name in FOR_TFLITE_ENGINES]
    return any(changes)
