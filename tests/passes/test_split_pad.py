"""Paddings by amounts become operators that files can store."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.formats import dumps, load
from circlet.ir import DType, Graph, Model, Quantization
from circlet.ops.build import builder
from circlet.ops.conv3d import Conv3DAttrs
from circlet.ops.pool import Pool2DAttrs
from tests.evaluate import evaluate, random_inputs
from tests.passes.harness import rewritten
from tests.passes.networks import F32, I8, conv, image

AMOUNTS = ((1, 2), (0, 1))


def padded_conv(dtype: DType) -> Graph:
    b = builder()
    y = conv(b, image(b, dtype))
    (op,) = b.graph.ops
    op.attrs = replace(op.attrs, padding=AMOUNTS)  # type: ignore[type-var]
    y.shape = (1, 7, 5, 4)
    return b.output(y).build()


def pool(dtype: DType, size: int = 6) -> Graph:
    b = builder()
    attrs = Pool2DAttrs(AMOUNTS, (2, 2), (3, 3))
    x = image(b, dtype, size)
    return b.output(b.op("MAX_POOL_2D", [x], attrs, name="pool", quant=x.quant)).build()


@pytest.mark.parametrize("dtype", [F32, I8])
def test_a_padding_of_a_convolution_becomes_an_operator(dtype: DType) -> None:
    graph = padded_conv(dtype)
    assert rewritten(graph, "split-pad") == ["PAD", "CONV_2D"]
    assert [op.name for op in graph.ops] == ["conv", "conv"]
    assert graph.ops[0].outputs[0].shape == (1, 9, 7, 2)
    dumps(Model([graph]), "tflite")


@pytest.mark.parametrize("dtype", [F32, I8])
def test_a_maximum_is_over_the_lowest_value(dtype: DType) -> None:
    graph = pool(dtype)
    assert rewritten(graph, "split-pad") == ["PADV2", "MAX_POOL_2D"]
    inputs = [np.full_like(array, -9) for array in random_inputs(graph)]
    stored = load(dumps(Model([graph]), "circle")).main
    (got,) = evaluate(stored, inputs)
    assert np.all(got == -9)


def test_a_padding_that_files_call_same_stays() -> None:
    b = builder()
    y = conv(b, image(b, F32))
    (op,) = b.graph.ops
    op.attrs = replace(op.attrs, padding=((1, 1), (1, 1)))  # type: ignore[type-var]
    y.shape = (1, 6, 6, 4)
    assert rewritten(b.output(y).build(), "split-pad") == ["CONV_2D"]


def test_volumes_are_padded_too() -> None:
    b = builder()
    x = b.input("x", F32, (1, 4, 4, 4, 2))
    weights = b.constant("w", np.ones((2, 2, 2, 2, 3), np.float32))
    attrs = Conv3DAttrs(((1, 0), (0, 1), (1, 1)))
    graph = b.output(b.op("CONV_3D", [x, weights], attrs, name="conv")).build()
    assert rewritten(graph, "split-pad") == ["PAD", "CONV_3D"]
    dumps(Model([graph]), "tflite")


def test_integers_are_padded_with_their_zero_point() -> None:
    graph = padded_conv(I8)
    quant = graph.inputs[0].quant
    assert isinstance(quant, Quantization) and quant.zero_point[0] == -3
    rewritten(graph, "split-pad")
    assert graph.ops[0].outputs[0].quant is quant
