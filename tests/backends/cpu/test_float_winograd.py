"""3 x 3 convolutions by Winograd's method: choice, results and rounding errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.ir import DType, Graph
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.convolve import convolve
from circlet.ops.geometry import SAME_UPPER, Window, Window2D
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Network, SideBySide
from tests.backends.cpu.harness import AND_V3, check_native, run_native
from tests.windows import conv2d_attrs


def _values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


GROUPS = {
    "groups": ((1, 15, 17, 64), 64, 4),
    "groups_of_last_vectors": ((2, 12, 13, 87), 93, 3),
    "many_groups_of_few_patches": ((1, 7, 7, 256), 512, 16),
}


def _weights(filters: int, channels: int, size: int = 3) -> np.ndarray:
    return _values(1, filters, size, size, channels) / np.float32(size * np.sqrt(channels))


def _conv(
    image: Sequence[int], filters: int, attrs: Conv2DAttrs, *, size: int = 3, bias: bool = True
) -> Graph:
    b = builder()
    x = b.input("x", DType.FLOAT32, tuple(image))
    w = b.constant("w", _weights(filters, image[3], size))
    offsets = b.constant("b", _values(2, filters)) if bias else None
    return b.output(b.op("CONV_2D", [x, w, offsets], attrs)).build()


def _attrs(padding: str = "SAME", stride: int = 1, dilation: int = 1) -> Conv2DAttrs:
    return conv2d_attrs(padding, stride, stride, "RELU6", dilation, dilation)


def _kernels(graph: Graph, target: str = "native") -> set[str]:
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    return {name for _, name in compile_partition(whole, parse_target(target), 1).steps}


CASES = {
    "whole_patches": ((1, 16, 16, 32), 32, "SAME"),
    "last_patches_overlap": ((1, 13, 18, 16), 48, "SAME"),
    "valid": ((1, 15, 17, 16), 32, "VALID"),
    "images": ((3, 9, 10, 16), 16, "SAME"),
    "last_vectors_overlap": ((1, 12, 12, 19), 21, "SAME"),
    "few_filters": ((1, 20, 21, 32), 5, "SAME"),
    "images_of_one_patch": ((9, 4, 4, 64), 64, "SAME"),
    "far_weights": ((1, 13, 14, 72), 91, "SAME"),
    "far_weights_in_groups": ((2, 26, 26, 72), 91, "SAME"),
}


def grouped(case: str, *, adds: bool) -> Network:
    """A convolution of groups; perhaps its result and something of another depth are added."""
    image, filters, groups = GROUPS[case]
    b, inputs = builder(), [_values(3, *image)]
    x, offsets = b.input("x", DType.FLOAT32, image), b.constant("b", _values(2, filters))
    w = b.constant("w", _weights(filters, image[3] // groups))
    y = b.op("CONV_2D", [x, w, offsets], conv2d_attrs("SAME", 1, 1, "NONE", 1, 1))
    if adds:
        inputs.append(_values(4, *y.static_shape))
        y = b.op("ADD", [y, b.input("z", DType.FLOAT32, y.static_shape)], AddAttrs("RELU"))
    return b.output(y).build(), inputs


def _network(case: str) -> Network:
    image, filters, padding = CASES[case]
    return _conv(image, filters, _attrs(padding)), [_values(3, *image)]


CONVOLUTIONS = SideBySide(CASES, _network)


@pytest.mark.parametrize("target", AND_V3)
@pytest.mark.parametrize("case", CASES)
def test_result_equals_record(case: str, target: str) -> None:
    graph, _ = _network(case)
    assert "winograd_f32" in _kernels(graph, target)
    CONVOLUTIONS.check(case, target)


GROUPED = SideBySide(
    [(case, adds) for case in GROUPS for adds in (False, True)],
    lambda pair: grouped(pair[0], adds=pair[1]),
    threads=2,
)


@pytest.mark.parametrize("target", AND_V3)
@pytest.mark.parametrize("adds", [False, True], ids=["alone", "added"])
@pytest.mark.parametrize("case", GROUPS)
def test_groups_equal_the_record(case: str, adds: bool, target: str) -> None:
    graph, _ = grouped(case, adds=adds)
    assert "winograd_f32" in _kernels(graph, target)
    GROUPED.check((case, adds), target)


def test_groups_narrower_than_a_register_stay_plain_sums() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 16, 16, 32))
    graph = b.output(b.op("CONV_2D", [x, b.constant("w", _weights(32, 2)), None], _attrs())).build()
    assert "winograd_f32" not in _kernels(graph)


@pytest.mark.parametrize(
    ("image", "filters", "size", "attrs"),
    [
        ((1, 16, 16, 32), 32, 1, _attrs()),
        ((1, 16, 16, 32), 32, 5, _attrs()),
        ((1, 16, 16, 32), 32, 3, _attrs(stride=2)),
        ((1, 16, 16, 32), 32, 3, _attrs(dilation=2)),
        ((1, 3, 16, 32), 32, 3, _attrs()),
        ((1, 64, 64, 3), 32, 3, _attrs()),
        ((1, 7, 7, 1024), 1024, 3, _attrs()),
    ],
    ids=["point", "five", "strided", "dilated", "low", "three_channels", "many_weights"],
)
def test_other_layers_stay_plain_sums(
    image: Sequence[int], filters: int, size: int, attrs: Conv2DAttrs
) -> None:
    assert "winograd_f32" not in _kernels(_conv(image, filters, attrs, size=size))


def test_layer_without_bias_equals_record() -> None:
    check_native(_conv((1, 8, 8, 32), 32, _attrs(), bias=False), [_values(4, 1, 8, 8, 32)])


def test_chained_layers_write_into_planned_borders() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 14, 15, 16))
    y = b.op("CONV_2D", [x, b.constant("w1", _weights(32, 16)), None], _attrs())
    z = b.op("CONV_2D", [y, b.constant("w2", _weights(16, 32)), None], _attrs())
    check_native(b.output(z).build(), [_values(5, 1, 14, 15, 16)])


@pytest.mark.parametrize(("size", "filters"), [((2, 23, 26, 32), 40), ((1, 13, 14, 72), 91)])
def test_result_is_bit_identical_for_any_thread_count(size: Sequence[int], filters: int) -> None:
    graph, image = _conv(size, filters, _attrs()), _values(6, *size)
    (one,), (two,) = (run_native(graph, [image], threads=n) for n in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("shift", [0.0, 1.0], ids=["centred", "one_sided"])
def test_rounding_error_of_many_channels_is_half_of_what_is_allowed(shift: float) -> None:
    image = _values(7, 1, 14, 14, 256) + np.float32(shift)
    attrs = conv2d_attrs("SAME", 1, 1, "NONE", 1, 1)
    (got,) = run_native(_conv(image.shape, 64, attrs, bias=False), [image])
    window = Window2D(SAME_UPPER, Window(3), Window(3))
    wanted = convolve(image.astype(np.float64), _weights(64, 256).astype(np.float64), window)
    assert np.abs(got - wanted).max() <= 5e-6 * max(1, np.abs(wanted).max())
