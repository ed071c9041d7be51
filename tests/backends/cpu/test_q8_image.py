"""Convolutions over images of few channels, whose kernel has lanes of pixels."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.lower.integers.image_q8 import channels_of_block, pack_words
from circlet.backends.cpu.lower.products.product import Im2colRow
from circlet.ir import DType, Graph
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.harness import check_native
from tests.backends.cpu.q8_graphs import Conv, conv_graph, rounding_to_even

U8 = DType.UINT8
UINT8_ZEROS = (17, 151, 120)

CASES = [
    Conv((1, 9, 63, 3), 32, stride=(2, 2), per_channel=True, activation="RELU6"),
    Conv((2, 7, 35, 3), 8, stride=(2, 2), dtype=U8, zeros=UINT8_ZEROS),
    Conv((1, 5, 50, 3), 24, dtype=U8, zeros=UINT8_ZEROS, activation="RELU"),
    Conv((1, 4, 16, 3), 3, padding="VALID", zeros=(-128, 0, 127)),
    Conv((1, 6, 31, 3), 17, (5, 5)),
    Conv((1, 9, 40, 3), 10, (7, 7), stride=(2, 2), output_scale=0.0003, per_channel=True),
    Conv((1, 11, 39, 1), 8, (10, 8), stride=(2, 2), activation="RELU"),
    Conv((1, 6, 64, 4), 12, (3, 3), stride=(1, 2), output_scale=0.00005),
    Conv((1, 5, 32, 2), 40, (2, 3), dilation=(2, 1), output_scale=1e7),
    Conv((1, 4, 300, 6), 6, (2, 1), padding="VALID", bias=False),
    Conv((1, 5, 13, 8), 7, dtype=U8, zeros=(255, 0, 0), activation="RELU6"),
]


def _kernels(graph: Graph) -> list[str]:
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    target = parse_target("x86_64+v4+avx512vnni+avx512vbmi")
    calls = compile_partition(whole, target, 1).calls
    return [call.kernel.function for call in calls if call]


def test_images_of_few_channels_are_bit_identical_to_the_record() -> None:
    graph, inputs = conv_graph(CASES, np.random.default_rng(9))
    assert _kernels(graph).count("conv_q8_image") == len(CASES)
    check_native(graph, inputs)
    check_native(graph, inputs, threads=2)
    check_native(rounding_to_even(graph), inputs)


def test_images_of_many_channels_short_rows_and_single_rows_of_taps_are_left() -> None:
    cases = [
        Conv((1, 6, 20, 9), 8),
        Conv((1, 6, 20, 5), 8, stride=(2, 2)),
        Conv((1, 6, 20, 8), 8, (1, 1)),
        Conv((1, 25, 10, 1), 64, (10, 4), stride=(2, 2)),
    ]
    graph, _ = conv_graph(cases, np.random.default_rng(9))
    assert "conv_q8_image" not in _kernels(graph)


def test_what_is_behind_whole_words_shares_words() -> None:
    weights = np.arange(1, 28, dtype=np.int8).reshape(1, 27)
    words = pack_words(weights, Im2colRow(3, 1, 9), 4)
    assert words.shape == (1, 7, 4, 4)
    wanted = [[1, 2, 3, 4], [5, 6, 7, 8], [10, 11, 12, 13], [14, 15, 16, 17], [19, 20, 21, 22]]
    assert words[0, :, 0].tolist() == [*wanted, [23, 24, 25, 26], [9, 18, 27, 0]]
    assert not words[0, :, 1:].any()


def test_blocks_of_channels_are_as_equal_as_can_be() -> None:
    assert [channels_of_block(n) for n in (1, 8, 16, 17, 24, 32, 40)] == [4, 8, 16, 12, 12, 16, 16]
