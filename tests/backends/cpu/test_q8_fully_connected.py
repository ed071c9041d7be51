from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType
from tests.backends.cpu.harness import TARGETS, check_native, runnable
from tests.backends.cpu.q8_graphs import rows_graph

SIZES = [(1, 1, 1), (1, 5, 3), (1, 640, 128), (3, 17, 40), (9, 64, 10), (1, 1030, 1001)]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    ("dtype", "zeros", "activation", "per_channel"),
    [
        (DType.INT8, (-128, 0, 127), "NONE", False),
        (DType.INT8, (5, 0, -128), "RELU", True),
        (DType.INT8, (127, -7, 3), "NONE", False),
        (DType.UINT8, (255, 0, 0), "NONE", False),
        (DType.UINT8, (3, 130, 11), "RELU6", False),
    ],
)
def test_fully_connected_is_bit_identical_to_the_record(
    name: str,
    sizes: tuple[int, int, int],
    dtype: DType,
    zeros: tuple[int, int, int],
    activation: str,
    per_channel: bool,
) -> None:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    rng = np.random.default_rng(5)
    graph, inputs = rows_graph(rng, sizes, dtype, zeros, activation, per_channel)
    check_native(graph, inputs, target)
