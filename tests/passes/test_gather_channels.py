"""Shuffles of channels become slices and gathers; what moves more than channels stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.ir import DType, Graph, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.gather import GatherAttrs
from circlet.ops.shape import ReshapeAttrs
from tests.passes.harness import rewritten


def transposed(b: Builder, x: Tensor, order: Sequence[int]) -> Tensor:
    return b.op("TRANSPOSE", [x, b.constant("order", np.array(order, np.int32))], name="transpose")


def reshaped(b: Builder, x: Tensor, sizes: Sequence[int]) -> Tensor:
    target = b.constant("sizes", np.array(sizes, np.int32))
    return b.op("RESHAPE", [x, target], ReshapeAttrs(tuple(sizes)), name="reshape")


def shuffled(groups: int, order: Sequence[int] = (1, 0, 2)) -> Graph:
    """[1, 4, 3, 12] as NCHW with its channels dealt out to groups, as ShuffleNet does it."""
    b = builder()
    x = transposed(b, b.input("x", DType.FLOAT32, (1, 4, 3, 12)), (0, 3, 1, 2))
    split = transposed(b, reshaped(b, x, (groups, 12 // groups, 12)), order)
    return b.output(transposed(b, reshaped(b, split, (1, 12, 4, 3)), (0, 2, 3, 1))).build()


def test_a_shuffle_is_one_gather_of_an_nhwc_image() -> None:
    passes = ("gather-channels", "move-transposes", "remove-dead-ops")
    assert rewritten(shuffled(3), *passes) == ["GATHER"]


@pytest.mark.parametrize("half", [0, 1])
def test_every_second_channel_is_a_slice(half: int) -> None:
    b = builder()
    x = transposed(b, b.input("x", DType.FLOAT32, (1, 4, 3, 12)), (0, 3, 1, 2))
    split = reshaped(b, transposed(b, reshaped(b, x, (6, 2, 12)), (1, 0, 2)), (2, 1, 6, 4, 3))
    index = b.constant("index", np.array(half, np.int32))
    part = b.op("GATHER", [split, index], GatherAttrs(axis=0), name="gather")
    graph = b.output(transposed(b, part, (0, 2, 3, 1))).build()
    passes = ("gather-channels", "move-transposes", "remove-dead-ops")
    assert rewritten(graph, *passes) == ["STRIDED_SLICE"]


def test_pixels_that_change_places_stay_as_they_are() -> None:
    kinds = rewritten(shuffled(3, (2, 0, 1)), "gather-channels")
    assert kinds == ["TRANSPOSE", "RESHAPE", "TRANSPOSE", "RESHAPE", "TRANSPOSE"]
