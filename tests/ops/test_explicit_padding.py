"""Explicit amounts of padding mean the same as a padded image does."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import FormatError
from circlet.formats import dumps, load
from circlet.ir import DType, Model, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.geometry import SAME_UPPER, UNPADDED, Padding
from circlet.ops.pool import Pool2DAttrs
from tests.evaluate import evaluate

PADS = (((0, 1), (2, 0)), ((3, 1), (0, 4)))
IMAGE = (1, 7, 8, 4)
RANDOM = np.random.default_rng(0)
DATA = RANDOM.standard_normal(IMAGE).astype(np.float32)


def layer(b: Builder, kind: str, x: Tensor, padding: Padding) -> Tensor:
    if kind == "CONV_2D":
        w = b.constant("w", np.random.default_rng(1).standard_normal((6, 3, 3, 4), np.float32))
        return b.op(kind, [x, w], Conv2DAttrs(padding, (2, 1)), name="y")
    w = b.constant("w", np.random.default_rng(1).standard_normal((1, 3, 3, 4), np.float32))
    return b.op(kind, [x, w], DepthwiseConv2DAttrs(padding, (2, 1)), name="y")


def network(kind: str, padding: Padding, shape: tuple[int, ...] = IMAGE) -> Model:
    b = builder()
    b.output(layer(b, kind, b.input("x", DType.FLOAT32, shape), padding))
    return b.model()


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("pads", PADS)
def test_convolutions_see_zeros_around_the_image(kind: str, pads: Padding) -> None:
    assert pads != SAME_UPPER
    padded = np.pad(DATA, ((0, 0), *pads, (0, 0)))
    (wanted,) = evaluate(network(kind, UNPADDED, padded.shape).main, [padded])
    (found,) = evaluate(network(kind, pads).main, [DATA])
    np.testing.assert_array_equal(found, wanted)


def test_averages_leave_padding_out() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, IMAGE)
    attrs = Pool2DAttrs(((1, 0), (0, 2)), (1, 1), (2, 3))
    graph = b.output(b.op("AVERAGE_POOL_2D", [x], attrs)).build()
    (found,) = evaluate(graph, [DATA])
    assert found.shape == (1, 7, 8, 4)
    np.testing.assert_allclose(found[0, 0, 7], DATA[0, 0, 7], rtol=1e-6)
    np.testing.assert_allclose(found[0, 3, 6], DATA[0, 2:4, 6:].mean((0, 1)), rtol=1e-5)


def test_files_take_the_amounts_of_same_and_refuse_others_by_name() -> None:
    same = load(dumps(network("CONV_2D", ((1, 1), (1, 1))), "tflite"))  # 7 rows by steps of 2
    assert same.main.ops[0].attributes(Conv2DAttrs).padding == SAME_UPPER
    none = load(dumps(network("CONV_2D", UNPADDED), "circle"))
    assert none.main.ops[0].attributes(Conv2DAttrs).padding == UNPADDED
    with pytest.raises(FormatError, match=r"where: y \(CONV_2D\)\n.*\n.*the pass split-padding"):
        dumps(network("CONV_2D", ((0, 2), (1, 1))), "tflite")
