"""Native float depthwise convolutions against the operator records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.lower.floats import depthwise_float
from circlet.ir import DType, Graph
from circlet.ops.build import builder
from circlet.ops.conv import DepthwiseConv2DAttrs
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Network, SideBySide
from tests.backends.cpu.harness import AND_V3, run_native
from tests.windows import depthwise_attrs


def _values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _attrs(
    padding: str = "SAME", stride: int = 1, dilation: int = 1, fused: str = "NONE"
) -> DepthwiseConv2DAttrs:
    return depthwise_attrs(padding, stride, stride, 0, fused, dilation, dilation)


def _depthwise(
    image: Sequence[int], window: Sequence[int], multiplier: int, attrs: DepthwiseConv2DAttrs
) -> Graph:
    maps = image[3] * multiplier
    b = builder()
    x = b.input("x", DType.FLOAT32, tuple(image))
    w = b.constant("w", _values(1, 1, *window, maps) / np.float32(np.sqrt(np.prod(window))))
    y = b.op("DEPTHWISE_CONV_2D", [x, w, b.constant("b", _values(2, maps))], attrs)
    return b.output(y).build()


THREE, FIVE = (3, 3), (5, 5)
CASES = {
    "three": ((1, 14, 14, 32), THREE, 1, _attrs()),
    "three_tail": ((1, 7, 9, 37), THREE, 1, _attrs(fused="RELU6")),
    "three_strided": ((1, 15, 14, 24), THREE, 1, _attrs(stride=2)),
    "three_valid": ((2, 8, 9, 16), THREE, 1, _attrs("VALID")),
    "few_channels": ((1, 9, 10, 3), THREE, 1, _attrs()),
    "few_channels_strided": ((1, 9, 10, 3), THREE, 1, _attrs(stride=2)),
    "eight_channels": ((1, 12, 12, 8), THREE, 1, _attrs()),
    "folded_to_many": ((1, 6, 4, 12), THREE, 1, _attrs(dilation=2)),
    "folded_with_tail": ((2, 6, 8, 24), THREE, 1, _attrs()),
    "five": ((1, 11, 13, 40), FIVE, 1, _attrs()),
    "five_strided": ((1, 11, 13, 40), FIVE, 1, _attrs(stride=2, fused="RELU")),
    "dilated": ((1, 12, 11, 20), THREE, 1, _attrs(dilation=2)),
    "dilated_far": ((1, 12, 11, 64), THREE, 1, _attrs(dilation=6)),
    "row_window": ((1, 6, 20, 18), (1, 9), 1, _attrs()),
    "wide_stride": ((1, 13, 13, 16), THREE, 1, _attrs(stride=4)),
    "seven": ((1, 14, 14, 40), (7, 7), 1, _attrs()),
    "seven_of_ten": ((1, 5, 10, 24), (7, 7), 1, _attrs(fused="RELU6")),
    "whole_image": ((1, 7, 7, 50), (7, 7), 1, _attrs("VALID")),
    "huge_window": ((1, 18, 19, 17), (17, 18), 1, _attrs("VALID")),
    "one_pixel": ((1, 1, 1, 20), THREE, 1, _attrs()),
    "many_channels": ((1, 4, 4, 515), THREE, 1, _attrs()),
    "two_maps": ((1, 8, 7, 6), THREE, 2, _attrs(stride=2)),
    "eight_maps_of_one": ((1, 10, 9, 1), (10, 8), 8, _attrs(stride=2)),
    "maps_batches": ((2, 5, 5, 3), THREE, 20, _attrs("VALID", dilation=2)),
}


def _network(case: str) -> Network:
    image, window, multiplier, attrs = CASES[case]
    return _depthwise(image, window, multiplier, attrs), [_values(3, *image)]


LAYERS = SideBySide(CASES, _network)


@pytest.mark.parametrize("target", AND_V3)
@pytest.mark.parametrize("case", CASES)
def test_depthwise_equals_record(case: str, target: str) -> None:
    LAYERS.check(case, target)


def test_depthwise_is_bit_identical_for_any_thread_count() -> None:
    graph = _depthwise((1, 31, 30, 45), THREE, 1, _attrs())
    image = _values(4, 1, 31, 30, 45)
    (one,), (two,) = (run_native(graph, [image], threads=n) for n in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("image", [(2, 9, 10, 45), (1, 7, 6, 600)])
def test_both_orders_of_channels_give_the_same_bits(
    image: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, data = _depthwise(image, THREE, 1, _attrs()), _values(5, *image)
    answers = []
    for across in (False, True):
        monkeypatch.setattr(depthwise_float, "_ways", lambda *_, way=across: (way,))
        answers.append(run_native(graph, [data])[0])
    assert answers[0].tobytes() == answers[1].tobytes()


@pytest.mark.parametrize(("channels", "across"), [(64, False), (256, True)])
def test_large_images_go_tile_by_tile_where_a_vector_is_a_line(channels: int, across: bool) -> None:
    graph = _depthwise((1, 32, 32, channels), THREE, 1, _attrs())
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    calls = compile_partition(whole, parse_target("x86_64+v4"), 1).calls
    (kernel,) = (c.kernel for c in calls if c and c.kernel.function == "depthwise_f32")
    assert kernel.arguments[-1] == int(across)
