"""Convolutions over computed 8-bit weights, as those that kernels take: bit for bit the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from circlet import Session
from circlet.ir import DType, Model, Op, Quantization
from circlet.ops import get
from circlet.ops.build import builder
from circlet.ops.computed_weights import MOST_GROUPS
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.decomposition import decomposed
from circlet.ops.geometry import SAME_UPPER, UNPADDED
from circlet.ops.transpose_conv import TransposeConvAttrs
from tests.tiers import quick_of

TYPES = pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])


@dataclass(frozen=True)
class Layer:
    """A layer over an image and computed weights.

    Attributes:
        channels: Of the image.
        weights: Sizes of the weights.
        axis: The axis of filters.
        sizes: Sizes of the result of a TRANSPOSE_CONV.
    """

    kind: str
    attrs: object
    channels: int
    weights: tuple[int, ...]
    axis: int = 0
    sizes: tuple[int, ...] = ()

    def build(self, dtype: DType) -> tuple[Model, list[np.ndarray]]:
        """Its network, and inputs."""
        random, b = np.random.default_rng(3), builder()
        low, high = (-128, 128) if dtype is DType.INT8 else (0, 256)
        filters = self.weights[self.axis]
        scales = Quantization.per_tensor(0.02, 120)
        if dtype is DType.INT8:
            own = tuple(np.linspace(0.01, 0.03, filters, dtype=np.float32).tolist())
            scales = Quantization.per_channel(own, self.axis)
        image = (2, 5, 4, self.channels)
        x = b.input("x", dtype, image, Quantization.per_tensor(0.05, 3))
        w = b.input("w", dtype, self.weights, scales)
        bias = b.constant("b", np.arange(filters, dtype=np.int32) * 50)
        inputs = [x, w, bias]
        if self.sizes:
            inputs = [b.constant("sizes", np.array(self.sizes, np.int32)), w, x, bias]
        result = b.op(self.kind, inputs, self.attrs, quant=Quantization.per_tensor(0.5, 1))
        given = [random.integers(low, high, s).astype(dtype.numpy) for s in (image, self.weights)]
        return b.output(result).model(), given


def transposed(padding: object, strides: tuple[int, int], rows: int, columns: int) -> Layer:
    attrs = TransposeConvAttrs(padding, strides)  # type: ignore[arg-type]
    return Layer("TRANSPOSE_CONV", attrs, 3, (7, 3, 2, 3), sizes=(2, rows, columns, 7))


LAYERS = (
    Layer("CONV_2D", Conv2DAttrs(SAME_UPPER, (1, 2), activation="RELU"), 6, (9, 3, 2, 2)),
    Layer("CONV_2D", Conv2DAttrs(((1, 0), (0, 2)), groups=6), 6, (6, 2, 2, 1)),
    Layer("DEPTHWISE_CONV_2D", DepthwiseConv2DAttrs(SAME_UPPER), 4, (1, 3, 3, 8), 3),
    Layer("DEPTHWISE_CONV_2D", DepthwiseConv2DAttrs(dilations=(2, 1)), 1, (1, 2, 2, 3), 3),
    transposed(UNPADDED, (1, 1), 7, 5),
    transposed(UNPADDED, (2, 3), 11, 11),
    transposed(SAME_UPPER, (2, 2), 9, 8),
    transposed(((1, 0), (0, 1)), (2, 1), 10, 4),
)


@TYPES
@pytest.mark.parametrize("layer", LAYERS)
def test_the_parts_make_what_the_whole_makes(layer: Layer, dtype: DType) -> None:
    model, given = layer.build(dtype)
    (op,) = model.main.ops
    parts = decomposed(op)
    assert parts
    (whole,) = get(op).evaluate(op, arrays_of(op, given))
    known = dict(zip(model.main.inputs, given, strict=True))
    for part in parts:
        values = [None if t is None else known.get(t, t.data) for t in part.inputs]
        known |= zip(part.outputs, get(part).evaluate(part, values), strict=True)
    np.testing.assert_array_equal(known[op.outputs[0]], whole)


def arrays_of(op: Op, given: Sequence[np.ndarray]) -> list[np.ndarray | None]:
    by_name = dict(zip("xw", given, strict=True))
    return [None if t is None else by_name.get(t.name, t.data) for t in op.inputs]


@pytest.mark.parametrize("index", quick_of(range(len(LAYERS)), (1, 2, 7)))
def test_the_parts_run_natively(index: int) -> None:
    model, given = LAYERS[index].build((DType.INT8, DType.UINT8)[index % 2])
    native = Session(model, strict=True, cache=False).run(given)
    expected = Session(model, backends=("reference",), cache=False).run(given)
    for made, right in zip(native.values(), expected.values(), strict=True):
        np.testing.assert_array_equal(made, right)


def test_many_groups_and_weights_that_are_constant_stay_whole() -> None:
    count = MOST_GROUPS + 1
    layers = [
        Layer("CONV_2D", Conv2DAttrs(), count, (count, 1, 1, 1)),
        Layer("DEPTHWISE_CONV_2D", DepthwiseConv2DAttrs(), count, (1, 1, 1, count), 3),
        Layer("CONV_2D", Conv2DAttrs(), 3, (4, 1, 1, 3)),
    ]
    for layer in layers:
        (op,) = layer.build(DType.INT8)[0].main.ops
        assert decomposed(op) == []
    b = builder()
    x = b.input("x", DType.INT8, (1, 4, 4, 4), Quantization.per_tensor(0.1))
    w = b.constant("w", np.ones((4, 1, 1, 2), np.int8), Quantization.per_tensor(0.1))
    made = b.op("CONV_2D", [x, w], Conv2DAttrs(), quant=Quantization.per_tensor(0.1))
    (op,) = b.output(made).model().main.ops
    assert decomposed(op) == []
