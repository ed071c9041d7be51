"""Native float depthwise convolutions against the operator records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

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
from tests.backends.cpu.harness import AND_V3, check_native, run_native, runnable
from tests.fuzz.guard_page import guarded_copy
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
    "two_maps_of_seven": ((1, 11, 14, 24), (7, 7), 2, _attrs(stride=2, fused="RELU6")),
    "two_maps_folded": ((2, 6, 8, 4), THREE, 2, _attrs("VALID", dilation=2)),
    "two_maps_narrow": ((1, 6, 7, 1), (7, 7), 2, _attrs()),
    "four_maps_tail": ((2, 7, 9, 11), THREE, 4, _attrs("VALID")),
    "eight_maps_any_window": ((1, 18, 19, 3), (17, 18), 8, _attrs("VALID")),
    "sixteen_maps": ((1, 6, 5, 3), FIVE, 16, _attrs()),
    "sixty_four_maps_of_one": ((1, 6, 5, 1), THREE, 64, _attrs()),
    "three_maps": ((1, 6, 7, 5), THREE, 3, _attrs()),
}


def repeated() -> Network:
    """Layers one after the other that give each channel several filters."""
    b, image = builder(), (1, 11, 14, 3)
    y = b.input("x", DType.FLOAT32, image)
    for window, multiplier, stride in ((THREE, 2, 1), (THREE, 4, 1), ((7, 7), 2, 2), (FIVE, 32, 1)):
        maps = y.static_shape[3] * multiplier
        w = b.constant("w", _values(maps, 1, *window, maps) / np.float32(np.sqrt(np.prod(window))))
        y = b.op(
            "DEPTHWISE_CONV_2D", [y, w, b.constant("b", _values(2, maps))], _attrs("SAME", stride)
        )
    return b.output(y).build(), [_values(3, *image)]


def _network(case: str) -> Network:
    image, window, multiplier, attrs = CASES[case]
    return _depthwise(image, window, multiplier, attrs), [_values(3, *image)]


LAYERS = SideBySide(CASES, _network)


@pytest.mark.parametrize("target", AND_V3)
@pytest.mark.parametrize("case", CASES)
def test_depthwise_equals_record(case: str, target: str) -> None:
    LAYERS.check(case, target)


@pytest.mark.parametrize("target", AND_V3)
def test_repeated_channels_are_read_up_to_the_last_one(target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    for multiplier, channels in product((2, 4, 8, 32), (2, 3, 9)):
        image = 1, 5, 8, channels
        graph = _depthwise(image, THREE, multiplier, _attrs("VALID"))
        check_native(graph, [guarded_copy(_values(3, *image))], chosen)


def test_repeated_channels_are_those_of_a_layer_over_a_repeated_image() -> None:
    attrs, image = _attrs("VALID"), _values(3, 1, 7, 9, 12)
    (repeated,) = run_native(_depthwise((1, 7, 9, 12), THREE, 4, attrs), [image])
    (plain,) = run_native(_depthwise((1, 7, 9, 48), THREE, 1, attrs), [image.repeat(4, axis=3)])
    assert repeated.tobytes() == plain.tobytes()


@pytest.mark.parametrize(
    ("image", "taps", "multiplier", "kernel"),
    [
        ((1, 6, 6, 2), THREE, 2, "depthwise_f32"),
        ((1, 6, 6, 2), THREE, 3, "conv_f32"),
        ((1, 6, 6, 1), THREE, 8, "depthwise_f32"),
        ((1, 6, 6, 1), THREE, 4, "conv_f32"),
        ((1, 6, 6, 1), FIVE, 8, "conv_f32"),
        ((1, 6, 6, 1), FIVE, 1, "depthwise_f32"),
    ],
)
def test_filters_of_one_channel_are_a_product_but_in_small_windows(
    image: Sequence[int], taps: Sequence[int], multiplier: int, kernel: str
) -> None:
    graph = _depthwise(image, taps, multiplier, _attrs())
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    calls = compile_partition(whole, parse_target("x86_64+v3"), 1).calls
    assert kernel in {call.kernel.function for call in calls if call}


@pytest.mark.parametrize("multiplier", [1, 4])
def test_depthwise_is_bit_identical_for_any_thread_count(multiplier: int) -> None:
    graph = _depthwise((1, 31, 30, 45), THREE, multiplier, _attrs())
    image = _values(4, 1, 31, 30, 45)
    (one,), (two,) = (run_native(graph, [image], threads=n) for n in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("image", [(2, 9, 10, 45), (1, 7, 6, 600)])
def test_both_orders_of_channels_give_the_same_bits(
    image: Sequence[int], multiplier: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, data = _depthwise(image, THREE, multiplier, _attrs()), _values(5, *image)
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
