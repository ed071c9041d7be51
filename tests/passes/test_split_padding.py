from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.errors import FormatError
from circlet.formats import dumps, load
from circlet.ir import DType, Graph, Model, Quantization
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.conv3d import Conv3DAttrs
from circlet.ops.geometry import Padding
from circlet.ops.pool import Pool2DAttrs
from tests.passes.harness import rewritten
from tests.passes.networks import F32, I8, conv, image

WIDE: Padding = ((2, 2), (1, 3))


def padded_conv(dtype: DType, padding: Padding) -> Graph:
    b = builder()
    graph = b.output(conv(b, image(b, dtype))).build()
    (op,) = graph.ops
    op.attrs = replace(op.attributes(Conv2DAttrs), padding=padding)
    (found,) = _inferred(graph)
    op.outputs[0].shape = found
    return graph


def _inferred(graph: Graph) -> list[tuple[int | None, ...]]:
    from circlet.ops import get

    return [inferred.shape for inferred in get(graph.ops[0]).infer(graph.ops[0])]


@pytest.mark.parametrize("dtype", [F32, I8])
def test_a_convolution_reads_a_padded_image(dtype: DType) -> None:
    graph = padded_conv(dtype, WIDE)
    with pytest.raises(FormatError, match="split-padding"):
        dumps(Model([graph]), "tflite")
    assert rewritten(graph, "split-padding") == ["PAD", "CONV_2D"]
    assert load(dumps(Model([graph]), "tflite")).main.ops[0].outputs[0].shape == (1, 10, 10, 2)
    assert {op.name for op in graph.ops} == {"conv"}


@pytest.mark.parametrize("padding", ["SAME_UPPER", ((0, 0), (0, 0)), ((1, 1), (1, 1))])
def test_what_files_have_a_word_for_stays(padding: Padding) -> None:
    assert rewritten(padded_conv(F32, padding), "split-padding") == ["CONV_2D"]


@pytest.mark.parametrize("dtype", [F32, I8])
def test_the_largest_of_a_window_is_none_of_its_padding(dtype: DType) -> None:
    b = builder()
    x = image(b, dtype)
    attrs = Pool2DAttrs(padding=((1, 0), (1, 0)), strides=(2, 2), kernel_shape=(3, 3))
    pooled = b.op("MAX_POOL_2D", [x], attrs, name="pool", quant=x.quant)
    graph = b.output(pooled).build()
    assert rewritten(graph, "split-padding") == ["PADV2", "MAX_POOL_2D"]


PADDINGS: list[Padding] = [((1, 0), (1, 0)), ((2, 1), (1, 2)), ((0, 2), (2, 1)), ((2, 2), (0, 0))]


def averaged(kind: str, dtype: DType, padding: Padding, size: int | None = 5) -> Graph:
    b = builder()
    quant = None if dtype is F32 else Quantization.per_tensor(0.5, 3)
    x = b.input("x", dtype, (2, 7, size, 3), quant=quant)
    attrs = Pool2DAttrs(padding, (2, 1), (3, 3), "RELU6")
    return b.output(b.op(kind, [x], attrs, name="pool", quant=quant)).build()


@pytest.mark.parametrize("padding", PADDINGS)
def test_an_average_divides_by_the_pixels_that_its_windows_hold(padding: Padding) -> None:
    graph = averaged("AVERAGE_POOL_2D", F32, padding)
    with pytest.raises(FormatError, match="split-padding"):
        dumps(Model([graph]), "tflite")
    assert rewritten(graph, "split-padding") == ["PAD", "DEPTHWISE_CONV_2D", "DIV"]
    assert len(load(dumps(Model([graph]), "tflite")).main.ops) == 3
    assert {op.name for op in graph.ops} == {"pool"}


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("AVERAGE_POOL_2D", I8),
        ("AVERAGE_POOL_2D", DType.UINT8),
        ("L2_POOL_2D", F32),
    ],
)
def test_pools_of_integers_are_made_part_by_part(kind: str, dtype: DType, padding: Padding) -> None:
    graph = averaged(kind, dtype, padding)
    made = rewritten(graph, "split-padding")
    assert set(made) == {"SLICE", kind, "CONCATENATION"}
    assert made.count(kind) <= 12
    assert len(load(dumps(Model([graph]), "circle")).main.ops) == len(made)


def test_an_average_over_open_sizes_stays() -> None:
    graph = averaged("AVERAGE_POOL_2D", F32, PADDINGS[0], None)
    assert rewritten(graph, "split-padding") == ["AVERAGE_POOL_2D"]


def test_volumes_are_padded_too() -> None:
    b = builder()
    x = b.input("x", F32, (1, 4, 5, 6, 2))
    weights = b.constant("w", np.random.default_rng(2).normal(size=(3, 3, 3, 2, 4)).astype("f"))
    attrs = Conv3DAttrs(padding=((1, 0), (2, 0), (0, 3)))
    graph = b.output(b.op("CONV_3D", [x, weights], attrs, name="conv")).build()
    assert rewritten(graph, "split-padding") == ["PAD", "CONV_3D"]


def test_open_sizes_stay_open() -> None:
    b = builder()
    x = b.input("x", F32, (None, None, None, 2))
    weights = b.constant("w", np.ones((4, 3, 3, 2), np.float32))
    y = b.op("CONV_2D", [x, weights, None], Conv2DAttrs(padding=((1, 1), (1, 1))), name="conv")
    graph = b.output(y).build()
    assert rewritten(graph, "split-padding") == ["PAD", "CONV_2D"]
    assert graph.ops[0].outputs[0].shape == (None, None, None, 2)


def test_the_zero_of_stored_numbers_is_what_is_padded() -> None:
    b = builder()
    x = b.input("x", I8, (1, 2, 2, 1), Quantization.per_tensor(0.5, -7))
    weights = b.constant("w", np.ones((1, 1, 1, 1), np.int8), Quantization.per_channel([1.0], 0))
    attrs = Conv2DAttrs(padding=((1, 1), (1, 1)))
    y = b.op("CONV_2D", [x, weights, None], attrs, quant=Quantization.per_tensor(0.5, -7))
    assert rewritten(b.output(y).build(), "split-padding") == ["PAD", "CONV_2D"]
