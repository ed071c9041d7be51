from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.lower.integers import depthwise_q8
from circlet.backends.cpu.lower.integers.depthwise_q8 import paired_parts
from circlet.ir import DType
from tests.backends.cpu.cases import each_width_of
from tests.backends.cpu.harness import check_native, runnable
from tests.backends.cpu.q8_graphs import Conv, conv_graph

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
]


@each_width_of("first", (0, 1, 2), [0], ("generic", "x86_64+v4"))
def test_depthwise_convolutions_are_bit_identical_to_the_record(first: int, target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph, inputs = conv_graph(CASES[first::3], np.random.default_rng(11))
    check_native(graph, inputs, chosen)


@pytest.mark.parametrize("name", ["x86_64+v3", pytest.param("x86_64+v4", marks=pytest.mark.slow)])
def test_any_weights_are_exact_in_paired_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    monkeypatch.setattr(depthwise_q8, "_RARE", 1e9)
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
