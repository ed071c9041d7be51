from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph
from circlet.ops.build import builder
from tests.passes.harness import rewritten
from tests.passes.networks import F32, I8, conv, image


def padded(
    dtype: DType, before: int, after: int, *, stride: int = 1, size: int = 6, batch: int = 0
) -> Graph:
    b = builder()
    sides = [[0, batch], [before, after], [before, after], [0, 0]]
    x = image(b, dtype, size)
    amounts = b.constant("amounts", np.array(sides, np.int32))
    t = b.op("PAD", [x, amounts], name="pad", quant=x.quant)
    return b.output(conv(b, t, stride=stride)).build()


@pytest.mark.parametrize("dtype", [F32, I8])
@pytest.mark.parametrize(("before", "after", "stride", "size"), [(1, 1, 1, 6), (0, 1, 2, 6)])
def test_padding_equal_to_same_goes(
    dtype: DType, before: int, after: int, stride: int, size: int
) -> None:
    graph = padded(dtype, before, after, stride=stride, size=size)
    assert rewritten(graph, "fuse-pad") == ["CONV_2D"]
    assert graph.ops[0].origin.name == "pad+conv"


def test_padding_before_is_not_same_with_stride_two() -> None:
    assert rewritten(padded(F32, 1, 0, stride=2), "fuse-pad") == ["PAD", "CONV_2D"]


def test_symmetric_padding_is_not_same_with_stride_two() -> None:
    assert rewritten(padded(F32, 1, 1, stride=2), "fuse-pad") == ["PAD", "CONV_2D"]


def test_padded_batch_stays() -> None:
    assert rewritten(padded(F32, 1, 1, batch=1), "fuse-pad") == ["PAD", "CONV_2D"]


@pytest.mark.parametrize(("fill", "kinds"), [(0, ["CONV_2D"]), (1, ["PADV2", "CONV_2D"])])
def test_only_zeros_are_fused(fill: int, kinds: list[str]) -> None:
    b = builder()
    amounts = b.constant("amounts", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    value = b.constant("value", np.array(fill, np.float32))
    t = b.op("PADV2", [image(b, F32), amounts, value], name="pad")
    assert rewritten(b.output(conv(b, t)).build(), "fuse-pad") == kinds


def test_padding_of_integers_is_fused_only_with_their_zero_point() -> None:
    b = builder()
    x = image(b, I8)
    amounts = b.constant("amounts", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    zero = b.constant("zero", np.array(0, np.int8), x.quant)
    t = b.op("PADV2", [x, amounts, zero], name="pad", quant=x.quant)
    assert rewritten(b.output(conv(b, t)).build(), "fuse-pad") == ["PADV2", "CONV_2D"]
