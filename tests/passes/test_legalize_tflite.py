"""Paddings, biases and sizes as TFLite's own tools write them, with equal results."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.formats import dumps, load
from circlet.ir import DType, Graph
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.geometry import Padding
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs
from circlet.passes import make
from tests.passes.harness import rewritten
from tests.passes.networks import F32, I8, conv, image

OWN: Padding = ((2, 0), (0, 1))


@pytest.mark.parametrize("dtype", [F32, I8])
def test_a_padding_of_its_own_becomes_an_op(dtype: DType) -> None:
    b = builder()
    x = image(b, dtype, 6)
    result = conv(b, x)
    op = b.graph.ops[-1]
    attrs = op.attributes(Conv2DAttrs)
    op.attrs = Conv2DAttrs(OWN, attrs.strides)
    result.shape = (1, 6, 5, result.shape[3])
    b.output(result)
    assert rewritten(b.graph, "legalize-tflite") == ["PAD", "CONV_2D"]
    assert load(dumps(b.model(), "tflite")).main.ops[0].kind == "PAD"


def test_max_pooling_is_padded_with_the_lowest() -> None:
    b = builder()
    x = b.input("x", F32, (1, 6, 6, 3))
    b.output(b.op("MAX_POOL_2D", [x], Pool2DAttrs(((1, 1), (1, 0)), (1, 1), (2, 2))))
    assert rewritten(b.graph, "legalize-tflite") == ["PADV2", "MAX_POOL_2D"]


def test_a_transposed_convolution_is_cut_out_of_a_larger_one() -> None:
    b = builder()
    x = b.input("x", F32, (1, 4, 4, 2))
    weights = b.constant("w", np.linspace(-1, 1, 54, dtype=np.float32).reshape(3, 3, 3, 2))
    target = b.constant("sizes", np.array([1, 6, 7, 3], np.int32))
    attrs = TransposeConvAttrs(((1, 2), (2, 0)), (2, 2))
    b.output(b.op("TRANSPOSE_CONV", [target, weights, x], attrs))
    assert rewritten(b.graph, "legalize-tflite") == ["TRANSPOSE_CONV", "SLICE"]


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
    x = b.input("x", F32, (2, 6))
    weights = b.constant("w", np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
    dense = b.op("FULLY_CONNECTED", [x, weights, None])
    target = b.constant("sizes", np.array([8], np.int32))
    b.output(b.op("RESHAPE", [dense, target]))
    assert rewritten(b.graph, "legalize-tflite") == ["FULLY_CONNECTED", "RESHAPE"]
    dense_op, reshape = b.graph.ops
    assert dense_op.input(2) is not None
    assert reshape.attributes(ReshapeAttrs).new_shape == (8,)
    assert not _changes(b.graph)


def _changes(graph: Graph) -> bool:
    return make("legalize-tflite").run(graph)
