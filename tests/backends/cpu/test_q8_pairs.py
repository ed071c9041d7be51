"""Weights whose products are added in 16 bits: kept within bounds, and what exceeds them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from circlet import Session
from circlet.backends.cpu import costs
from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.lower.integers.pairs_q8 import PAIRS, SPARSE, WIDE, Windows, bounded
from circlet.backends.cpu.lower.integers.q8 import has_dot, has_pairs
from circlet.backends.cpu.lower.integers.sparse_q8 import chunk_pixels, sparse_excess
from circlet.formats import dumps
from circlet.ir import DType, Model
from circlet.ops.evaluate import evaluate_graph
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.harness import check_native, runnable
from tests.backends.cpu.q8_graphs import Conv, Rows, conv_graph, rows_graph
from tests.tiers import slow

_LANES, _VECTORS = 8, 2
WINDOWS = [Windows(1, 1, 3, _LANES), Windows(1, 1, 19, _LANES), Windows(2, 3, 12, _LANES)]

_COSTS = {PAIRS: "paired_steps", WIDE: "int16_steps", SPARSE: "sparse_steps"}

_GATHERED = (
    ((1, 7, 9, 3), (3, 3)),
    ((1, 6, 8, 1), (5, 5)),
    ((1, 4, 5, 1), (2, 2)),
    ((2, 5, 4, 8), (3, 2)),
)


def _packed(windows: Windows, spread: float) -> np.ndarray:
    shape = 3, windows.rows * windows.columns * windows.groups, _VECTORS * _LANES, 4
    weights = np.random.default_rng(1).normal(0, spread, shape)
    return np.clip(weights, -255, 255).astype(np.int16)


def _with_excess(kept: np.ndarray, table: np.ndarray, windows: Windows) -> np.ndarray:
    """Kept weights and the excess of the table added up, where the kernel does it."""
    whole = kept.astype(np.int64)
    registers = len(kept) * _VECTORS
    ends = table[: 4 * (registers + 1)].view(np.int32)
    first = -(-4 * (registers + 1) // 16) * 16
    rows = table[first:].reshape(-1, 16 + 4 * _LANES)
    bytes_of_groups = list(windows.byte_of_group)
    for register in range(registers):
        for row in rows[ends[register] : ends[register + 1]]:
            down, across, byte, _ = row[:16].copy().view(np.int32)
            group = bytes_of_groups.index(byte)
            step = (down * windows.columns + across) * windows.groups + group
            block, vector = divmod(register, _VECTORS)
            lanes = slice(vector * _LANES, (vector + 1) * _LANES)
            weights = row[16:].reshape(_LANES, 2, 2).astype(np.int64)
            assert np.maximum(weights, 0).sum(-1).max() <= 128
            assert np.minimum(weights, 0).sum(-1).min() >= -128
            whole[block, step, lanes] += weights.reshape(_LANES, 4)
    return whole


def _with_entries(kept: np.ndarray, table: np.ndarray, windows: Windows) -> np.ndarray:
    """Kept weights and the entries of the sparse excess added up."""
    whole, apart = kept.astype(np.int64), 4 * chunk_pixels(_LANES)
    pairs = whole.reshape(len(kept), -1, _VECTORS * _LANES, 2, 2)
    rows = table[-(-(len(kept) + 1) // 4) * 4 :].reshape(-1, 5)
    for block in range(len(kept)):
        for channel, *rest in rows[table[block] : table[block + 1]]:
            for taps, weights in zip(rest[:2], rest[2:], strict=True):
                step, half = divmod(taps // apart, 2)
                pairs[block, step, channel // apart, half] += weights.reshape(1).view(np.int16)
    return whole


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("spread", [5.0, 40.0, 1000.0])
def test_kept_weights_and_entries_are_the_weights(windows: Windows, spread: float) -> None:
    packed = _packed(windows, spread)
    kept, table, entries = sparse_excess(packed, windows)
    assert table[len(packed)] == entries
    np.testing.assert_array_equal(_with_entries(kept, table, windows), packed)


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("spread", [5.0, 40.0, 1000.0])
def test_kept_weights_and_their_excess_are_the_weights(windows: Windows, spread: float) -> None:
    packed = _packed(windows, spread)
    kept, table = bounded(packed, windows)
    np.testing.assert_array_equal(_with_excess(kept, table, windows), packed)


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("keep", [bounded, sparse_excess])
def test_sums_of_kept_weights_fit_16_bits(
    keep: Callable[[np.ndarray, Windows], tuple[np.ndarray, ...]], windows: Windows
) -> None:
    kept, *_ = keep(_packed(windows, 80.0), windows)
    runs = kept.astype(np.int64).reshape(3, -1, windows.groups, _VECTORS * _LANES, 2, 2)
    twos = windows.length // 4 // 2 * 2
    together = runs[:, :, :twos].reshape(3, runs.shape[1], -1, 2, *runs.shape[3:])
    for sums, axes in ((together, (3, -1)), (runs[:, :, twos:], (-1,))):
        most = 255 * np.maximum(sums, 0).sum(axes).max(initial=0)
        least = 255 * np.minimum(sums, 0).sum(axes).min(initial=0)
        assert least >= -(1 << 15) and most < 1 << 15


def test_small_weights_have_no_excess() -> None:
    windows = WINDOWS[1]
    packed = _packed(windows, 4.0)
    kept, table = bounded(packed, windows)
    np.testing.assert_array_equal(kept, packed)
    assert table.size == 32 and not table.any()


def test_targets_add_in_16_bits_where_they_have_no_dot_product() -> None:
    names = ("x86_64+v2", "x86_64+v3", "x86_64+v4")
    assert all(has_pairs(parse_target(name)) for name in names)
    others = ("x86_64", "x86_64+v4+avx512vnni", "x86_64+v3+avxvnni", "aarch64+dotprod", "aarch64")
    assert not any(has_pairs(parse_target(name)) for name in others)
    assert has_dot(parse_target("x86_64+v3+avxvnni"))


@pytest.mark.parametrize(
    "channels, taps, target, applies",
    [
        (3, (3, 3), "x86_64+v3", True),
        (5, (3, 3), "x86_64+v3", True),
        (6, (3, 3), "x86_64+v3", False),
        (3, (1, 3), "x86_64+v3", False),
        (3, (3, 3), "x86_64+v3+avxvnni", False),
    ],
)
def test_windows_of_short_rows_are_gathered(
    channels: int, taps: tuple[int, int], target: str, applies: bool
) -> None:
    graph, _ = conv_graph([Conv((1, 7, 9, channels), 9, taps)], np.random.default_rng(3))
    (part,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    calls = compile_partition(part, parse_target(target), 1).calls
    ways = [
        str(call.kernel.arguments[3])
        for call in calls
        if call and call.kernel.function == "conv_q8"
    ]
    assert [("CONV_Q8_GATHER" in way) for way in ways] == [applies]


@pytest.mark.parametrize("name", ["x86_64+v3", *slow("native", "generic", "x86_64+v4")])
@pytest.mark.parametrize("dtype", [DType.INT8, *slow(DType.UINT8)])
@pytest.mark.parametrize("products", [PAIRS, WIDE, SPARSE])
def test_any_weights_are_exact_in_each_form(
    products: str, dtype: DType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    monkeypatch.setattr(costs, _COSTS[products], lambda *_: -1.0)
    zeros = (0, 255, 9) if dtype is DType.UINT8 else (-128, 0, 9)
    convs = [
        Conv((1, 5, 6, 13), 20, (3, 3), dtype=dtype, zeros=zeros),
        Conv((1, 3, 5, 2), 9, (1, 1), dtype=dtype, zeros=zeros),
        Conv((1, 4, 9, 24), 17, (1, 1), (1, 3), dtype=dtype, zeros=zeros),
        Conv((2, 7, 5, 67), 40, (1, 1), dtype=dtype, zeros=zeros),
        Conv((1, 9, 11, 37), 18, (3, 3), (2, 2), dtype=dtype, zeros=zeros),
        *(Conv(image, 9, taps, dtype=dtype, zeros=zeros) for image, taps in _GATHERED),
    ]
    graph, inputs = conv_graph(convs, np.random.default_rng(3))
    check_native(graph, inputs, target)
    check_native(graph, [np.full_like(x, np.iinfo(x.dtype).max) for x in inputs], target)
    graph, inputs = rows_graph([Rows((3, 37, 18), dtype, zeros)], np.random.default_rng(3))
    check_native(graph, inputs, target)


@pytest.mark.parametrize(("first", "other"), [(1, 17), (17, 1)])
def test_windows_that_are_gathered_in_one_size_need_not_be_in_another(
    first: int, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runnable("x86_64+v3") is None:
        pytest.skip("this CPU cannot run x86_64+v3")
    monkeypatch.setattr(costs, _COSTS[SPARSE], lambda *_: -1.0)
    case = Conv((1, 4, first, 4), 18, (3, 1), per_channel=True)
    graph, _ = conv_graph([case], np.random.default_rng(3))
    session = Session(dumps(Model([graph]), "tflite"), target="x86_64+v3", strict=True)
    resized = replace(case, image=(1, 4, other, 4))
    graph, inputs = conv_graph([resized], np.random.default_rng(3))
    (got,) = session.resized({"x0": resized.image}).run(inputs).values()
    (wanted,) = evaluate_graph(graph, inputs)
    np.testing.assert_array_equal(got, wanted)
