from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.lower.integers import depthwise_pairs_q8, depthwise_q8
from circlet.backends.cpu.lower.integers.depthwise_pairs_q8 import (
    Quads,
    flipped_sum,
    pack_pairs,
    split_sizes,
)
from circlet.backends.cpu.lower.integers.depthwise_q8 import paired_parts
from circlet.backends.cpu.lowering import LOWERINGS
from circlet.ir import DType
from circlet.ops.geometry import Window, Window2D
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import each_width, each_width_of
from tests.backends.cpu.harness import check_native, runnable
from tests.backends.cpu.q8_graphs import Conv, conv_graph, rounding_to_even
from tests.fuzz.guard_page import guarded_copy

U8 = DType.UINT8

CASES = [
    Conv((1, 5, 6, 1), 0),
    Conv((1, 5, 9, 3), 0, stride=(2, 2), per_channel=True),
    Conv((1, 6, 13, 16), 0, activation="RELU6", per_channel=True),
    Conv((2, 6, 7, 24), 0, stride=(2, 2), zeros=(-128, 0, 127)),
    Conv((1, 8, 8, 40), 0, (5, 5), per_channel=True, bias=False),
    Conv((1, 9, 9, 17), 0, dilation=(2, 2), activation="RELU"),
    Conv((1, 9, 9, 32), 0, (2, 3), padding="VALID", stride=(1, 2), dilation=(3, 1)),
    Conv((1, 4, 5, 33), 0, (4, 5), padding="VALID", zeros=(127, 0, -128)),
    Conv((1, 11, 9, 8), 0, (10, 8), stride=(2, 2)),
    Conv((1, 6, 7, 24), 0, dtype=U8, zeros=(0, 255, 255)),
    Conv((1, 6, 7, 17), 0, dtype=U8, zeros=(255, 0, 0), activation="RELU6"),
    Conv((1, 6, 7, 17), 0, dtype=U8, zeros=(0, 0, 0), output_scale=0.2),
    Conv((1, 6, 7, 5), 0, dtype=U8, zeros=(120, 121, 122), dilation=(2, 2)),
    Conv((1, 6, 9, 100), 0, dtype=U8, zeros=(3, 127, 7), activation="RELU6"),
    Conv((1, 9, 7, 80), 0, (1, 3), dtype=U8, zeros=(3, 126, 7), activation="RELU"),
    Conv((1, 3, 99, 16), 0, (2, 40), dtype=U8, zeros=(3, 122, 7)),
    Conv((1, 6, 7, 16), 0, output_scale=0.00005, per_channel=True),
    Conv((1, 7, 6, 1), 0, (5, 3), multiplier=8),
    Conv((1, 7, 6, 3), 0, multiplier=4, dtype=U8, zeros=(3, 140, 7)),
    Conv((1, 7, 6, 4), 0, (5, 3), multiplier=3, per_channel=True),
    Conv((2, 6, 9, 1), 0, stride=(2, 2), multiplier=32, per_channel=True),
    Conv((1, 5, 6, 5), 0, multiplier=2, activation="RELU6", zeros=(127, 0, -128)),
    Conv((1, 9, 8, 17), 0, (7, 7), stride=(2, 2), multiplier=2, per_channel=True),
    Conv((1, 6, 7, 9), 0, padding="VALID", multiplier=4, dtype=U8, zeros=(255, 0, 0)),
    Conv((1, 6, 7, 12), 0, multiplier=8, dtype=U8, zeros=(3, 127, 7), dilation=(2, 1)),
    Conv((2, 5, 7, 3), 0, (2, 3), padding="VALID", multiplier=64, bias=False),
    Conv((1, 6, 7, 4), 0, multiplier=16, output_scale=0.00005, per_channel=True),
    Conv((2, 6, 16, 8), 0, (1, 3), stride=(3, 3), multiplier=8),
]


@each_width_of("first", (0, 1, 2), [0], ("generic", "x86_64+v4"))
def test_depthwise_convolutions_are_bit_identical_to_the_record(first: int, target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph, inputs = conv_graph(CASES[first::3], np.random.default_rng(11))
    check_native(graph, inputs, chosen)
    check_native(rounding_to_even(graph), inputs, chosen)


PAIRED = [
    Conv((1, 70, 67, 24), 0, per_channel=True, activation="RELU6"),
    Conv((1, 1, 1, 20), 0, (1, 1), dtype=U8, zeros=(3, 0, 7)),
    Conv((2, 7, 130, 28), 0, (1, 5), padding="VALID", stride=(1, 3), dilation=(1, 2)),
    Conv((1, 9, 8, 16), 0, (5, 5), stride=(2, 2), dtype=U8, zeros=(9, 255, 0)),
    Conv((1, 10, 5, 7), 0, (2, 4), dilation=(2, 1), per_channel=True),
    Conv((1, 6, 67, 13), 0, (5, 5), stride=(1, 2), multiplier=2, dtype=U8, zeros=(9, 255, 0)),
    Conv((1, 6, 7, 1), 0, multiplier=8, per_channel=True),
]


# Pixels whose channels fill registers of 64 bytes together, on AVX-512 with VNNI.
JOINED = [
    Conv((1, 5, 16, 8), 0, per_channel=True, activation="RELU6"),
    Conv((2, 4, 24, 8), 0, dtype=U8, zeros=(3, 126, 7), activation="RELU"),
    Conv((1, 1, 8, 16), 0, (1, 3), output_scale=0.00005, per_channel=True),
    Conv((1, 7, 40, 24), 0, (5, 3), dtype=U8, zeros=(0, 255, 255)),
    Conv((1, 6, 6, 32), 0, zeros=(127, 0, -128)),
    Conv((1, 6, 12, 48), 0, (2, 2), dilation=(1, 2), bias=False),
    Conv((1, 9, 8, 56), 0, (3, 1), stride=(2, 1), dtype=U8, zeros=(255, 0, 0)),
    Conv((1, 6, 8, 4), 0, (5, 3), multiplier=4, per_channel=True),
]


def test_pixels_that_fill_registers_together_are_bit_identical_to_the_record() -> None:
    graph, inputs = conv_graph(JOINED, np.random.default_rng(17))
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    calls = compile_partition(whole, parse_target("x86_64+v4+avx512vnni"), 1).calls
    kernels = [call.kernel for call in calls if call and call.kernel.function == "depthwise_q8"]
    assert [kernel.arguments[0] for kernel in kernels] == [64] * len(JOINED)
    check_native(graph, inputs)
    check_native(graph, inputs, threads=2)
    check_native(rounding_to_even(graph), inputs)


@each_width
def test_repeated_channels_are_read_up_to_the_last_one(target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = [
        Conv((1, 5, 8, channels), 0, padding="VALID", multiplier=multiplier)
        for multiplier, channels in product((2, 4, 8, 32), (2, 3, 9, 40))
    ]
    graph, inputs = conv_graph(cases, np.random.default_rng(19))
    check_native(graph, [guarded_copy(x) for x in inputs], chosen)


@pytest.mark.parametrize(
    ("case", "target", "kernel"),
    [
        (Conv((1, 6, 6, 8), 0, multiplier=2), "x86_64+v3", "depthwise_pairs_q8"),
        (Conv((1, 6, 6, 8), 0, multiplier=2), "x86_64+v4+avx512vnni", "depthwise_q8"),
        (Conv((1, 6, 6, 8), 0, multiplier=3), "x86_64+v3", "conv_q8"),
        (Conv((1, 6, 6, 1), 0, multiplier=8), "x86_64+v3", "depthwise_pairs_q8"),
        (Conv((1, 6, 6, 1), 0, multiplier=8), "x86_64+v4+avx512vnni", "conv_q8"),
        (Conv((1, 9, 9, 1), 0, (10, 8), multiplier=16), "x86_64+v3", "conv_q8"),
        (Conv((1, 9, 9, 3), 0, (7, 7), multiplier=16), "x86_64+v4+avx512vnni", "conv_q8"),
        (Conv((1, 9, 9, 3), 0, (5, 5), multiplier=16), "x86_64+v4+avx512vnni", "depthwise_q8"),
    ],
)
def test_filters_of_few_channels_are_a_full_convolution(
    case: Conv, target: str, kernel: str
) -> None:
    graph, _ = conv_graph([case], np.random.default_rng(1))
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    calls = compile_partition(whole, parse_target(target), 1).calls
    assert kernel in {call.kernel.function for call in calls if call}


@pytest.mark.parametrize("name", ["x86_64+v3", pytest.param("x86_64+v2", marks=pytest.mark.slow)])
def test_paired_products_are_exact_at_the_ends_of_all_ranges(name: str) -> None:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    graph, inputs = conv_graph(PAIRED, np.random.default_rng(13))
    rows = [LOWERINGS.choose(op, target) for op in graph.ops]
    assert {row if isinstance(row, str) else row.name for row in rows} == {"depthwise_pairs_q8"}
    check_native(graph, inputs, target)
    for end in ("min", "max"):
        ends = [np.full_like(x, getattr(np.iinfo(x.dtype), end)) for x in inputs]
        check_native(graph, ends, target)


@pytest.mark.parametrize("taps", [(3, 3, 1), (3, 3, 2), (5, 5, 1), (5, 5, 2), (1, 9, 1), (4, 2, 2)])
def test_flipped_products_of_two_fit_16_bits_and_add_up(taps: tuple[int, int, int]) -> None:
    height, width, rows = taps
    rng = np.random.default_rng(3)
    weights = rng.integers(-255, 256, (height, width, 16))
    weights[:2, :2] = -128
    parts = split_sizes(weights)
    quads = Quads(Window2D(((0, 0), (0, 0)), Window(height), Window(width)), rows)
    packed, more = pack_pairs(parts, quads, 0, 4)
    table = packed.reshape(4, len(parts), quads.count, rows, 2, 4, 4)
    flips, sizes = table[:, :, :, :, 0], table[:, :, :, :, 1].astype(np.int64)
    image = rng.integers(-128, 128, (quads.height + 4, width + 4, 16)).astype(np.int8)
    image[0] = -128
    sums = np.zeros((rows, 16), np.int64)
    for n, quad in enumerate(quads.taps()):
        seen = np.stack([image[at].reshape(4, 4) for at in quad], axis=2)[:, None, None]
        products = sizes[:, :, n] * (seen.view(np.uint8) ^ flips[:, :, n]).view(np.int8)
        pairs = products.reshape(*products.shape[:-1], 2, 2).sum(axis=-1)
        assert pairs.min() >= -32768
        assert pairs.max() <= 32767
        sums += pairs.sum(axis=(1, 4)).transpose(1, 0, 2).reshape(rows, 16)
    for row in range(rows):
        window = image[row : row + height, :width].astype(np.int64)
        expected = (window * weights).sum(axis=(0, 1))
        np.testing.assert_array_equal(sums[row] + flipped_sum(parts), expected)
    assert more.tolist() == [15]


@pytest.mark.parametrize("name", ["x86_64+v3", pytest.param("x86_64+v4", marks=pytest.mark.slow)])
def test_any_weights_are_exact_in_paired_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    monkeypatch.setattr(depthwise_q8, "_RARE", 1e9)
    monkeypatch.setattr(depthwise_pairs_q8, "_MOST_PRODUCTS", 0)
    cases = [case for case in CASES if case.multiplier == 1]
    graph, inputs = conv_graph(cases, np.random.default_rng(12))
    check_native(graph, [np.full_like(x, np.iinfo(x.dtype).max) for x in inputs], target)
    check_native(graph, inputs, target)


@pytest.mark.parametrize("height", [1, 3, 5])
def test_paired_parts_are_the_weights_and_fit_16_bits(height: int) -> None:
    weights = np.random.default_rng(2).integers(-255, 256, (height, 3, 40))
    parts = paired_parts(weights)
    np.testing.assert_array_equal(np.sum(parts, axis=0, dtype=np.int64), weights)
    for part in parts:
        wide = np.pad(part.astype(np.int64), ((0, 2), (0, 0), (0, 0)))
        above, below = np.maximum(wide, 0), np.minimum(wide, 0)
        assert (above[:-2] + above[2:]).max() <= 128
        assert (below[:-2] + below[2:]).min() >= -128
