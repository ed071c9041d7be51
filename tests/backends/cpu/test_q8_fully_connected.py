from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Quantization
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.requantization import DOUBLE
from tests.backends.cpu.cases import QUANT, Cases, each_target, each_width_of
from tests.backends.cpu.harness import check_native, runnable
from tests.backends.cpu.q8_graphs import Rows, rows_graph
from tests.tiers import slow

SIZES = [(1, 1, 1), (1, 5, 3), (1, 640, 128), (3, 17, 40), (9, 64, 10), (1, 1030, 1001)]
CASES = [
    case
    for sizes in SIZES
    for case in (
        Rows(sizes, zeros=(-128, 0, 127)),
        Rows(sizes, zeros=(5, 0, -128), activation="RELU", per_channel=True),
        Rows(sizes, zeros=(127, -7, 3)),
        Rows(sizes, DType.UINT8, (255, 0, 0)),
        Rows(sizes, DType.UINT8, (3, 130, 11), "RELU6"),
    )
]


@each_width_of("first", (0, 1), [0])
def test_fully_connected_layers_are_bit_identical_to_the_record(first: int, target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph, inputs = rows_graph(CASES[first::2], np.random.default_rng(5))
    check_native(graph, inputs, chosen)


@each_target
@pytest.mark.parametrize("first", [0, *slow(1)])
def test_a_fixed_point_policy_is_kept_bit_for_bit(first: int, target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph, inputs = rows_graph(CASES[first::2], np.random.default_rng(6))
    for op in graph.ops:
        op.requantization = DOUBLE
    check_native(graph, inputs, chosen)


@each_target
def test_the_policy_is_kept_over_computed_weights(target: str) -> None:
    cases = Cases()
    for dtype in (DType.INT8, DType.UINT8):
        weights = cases.data(dtype, (13, 40), Quantization.per_tensor(0.02))
        rows = cases.data(dtype, (5, 40), QUANT)
        cases.op("FULLY_CONNECTED", [rows, weights], FullyConnectedAttrs(), quant=QUANT)
        cases.builder.graph.ops[-1].requantization = DOUBLE
    cases.check(target)
