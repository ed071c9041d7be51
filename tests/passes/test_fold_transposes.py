from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Quantization
from circlet.ops.build import builder
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.passes import make
from tests.passes.harness import kinds_of, rewritten
from tests.passes.networks import F32, I8

FOLDED = ["RESHAPE", "FULLY_CONNECTED"]
KEPT = ["TRANSPOSE", "RESHAPE", "FULLY_CONNECTED"]


def flattened(
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    rows: tuple[int, ...],
    dtype: DType = F32,
    *,
    shown: bool = False,
) -> Graph:
    """An image that is transposed, flattened to rows, and given to a layer."""
    b, random = builder(), np.random.default_rng(3)
    quant = None if dtype is F32 else Quantization.per_tensor(0.5, 3)
    x = b.input("x", dtype, sizes, quant)
    turned = b.op("TRANSPOSE", [x, b.constant("order", np.array(order, np.int32))], quant=quant)
    target = b.constant("rows", np.array(rows, np.int32))
    flat = b.op("RESHAPE", [turned, target], quant=quant)
    numbers = random.integers(-20, 20, (5, rows[-1]))
    scales = None if dtype is F32 else Quantization(np.full(5, 0.1, "f"), np.zeros(5, int))
    weights = b.constant("w", numbers.astype(dtype.numpy), scales)
    attrs = FullyConnectedAttrs(keep_num_dims=True)
    result = None if dtype is F32 else Quantization.per_tensor(9.0, 1)
    y = b.op("FULLY_CONNECTED", [flat, weights, None], attrs, quant=result)
    return b.output(y, *([turned] if shown else [])).build()


@pytest.mark.parametrize(
    ("sizes", "order", "rows"),
    [
        ((1, 4, 3, 6), (0, 3, 1, 2), (1, 72)),
        ((2, 4, 3, 6), (0, 3, 1, 2), (2, 72)),
        ((2, 4, 3, 6), (0, 3, 2, 1), (2, 1, 72)),
        ((2, 4, 3, 6), (0, 1, 3, 2), (8, 18)),
        ((3, 4, 5), (2, 1, 0), (1, 60)),
    ],
)
def test_weights_take_the_order_of_the_image(
    sizes: tuple[int, ...], order: tuple[int, ...], rows: tuple[int, ...]
) -> None:
    graph = flattened(sizes, order, rows)
    assert rewritten(graph, "fold-transposes", tolerance=1e-5) == FOLDED


def test_scales_of_channels_stay_theirs() -> None:
    graph = flattened((2, 4, 3, 6), (0, 3, 1, 2), (2, 72), I8)
    assert rewritten(graph, "fold-transposes", tolerance=1e-9) == FOLDED


@pytest.mark.parametrize(
    ("order", "rows", "shown"),
    [
        ((0, 3, 1, 2), (2, 72), True),
        ((1, 0, 2, 3), (2, 72), False),
        ((0, 3, 1, 2), (12, 12), False),
        ((0, 2, 1, 3), (24, 6), False),
    ],
    ids=["others_read_it", "rows_move", "rows_of_parts", "columns_stay"],
)
def test_a_transpose_of_other_axes_stays(
    order: tuple[int, ...], rows: tuple[int, ...], shown: bool
) -> None:
    graph = flattened((2, 4, 3, 6), order, rows, shown=shown)
    assert not make("fold-transposes").run(graph)
    assert kinds_of(graph) == KEPT
