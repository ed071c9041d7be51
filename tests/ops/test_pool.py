from __future__ import annotations

from pathlib import Path

import pytest

from circlet.ir import DType, Model
from circlet.ops import get
from tests.ops.single_op import floats, per_tensor, replay_single, single_op
from tests.windows import pool_attrs

FORMS = [
    (kind, dtype)
    for kind, dtypes in (
        ("AVERAGE_POOL_2D", (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16)),
        ("MAX_POOL_2D", (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16)),
        ("L2_POOL_2D", (DType.FLOAT32,)),
    )
    for dtype in dtypes
]


def model_of(kind: str, dtype: DType, padding: str, activation: str = "NONE") -> Model:
    """A 4x3 window with strides 1 and 2 over a [2, 17, 13, 8] input."""
    attrs = pool_attrs(padding, 2, 1, 3, 4, activation)
    zeros = {DType.INT8: -7, DType.UINT8: 99, DType.INT16: 0}
    quant = None if dtype.is_float else per_tensor(0.1, zeros[dtype])
    return single_op(kind, (dtype, (2, 17, 13, 8), quant), [], attrs, quant)


@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("kind", "dtype"), FORMS)
def test_pooling_agrees_with_litert(
    kind: str, dtype: DType, padding: str, activation: str, tmp_path: Path
) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is the judge")
    row = replay_single(model_of(kind, dtype, padding, activation), tmp_path)
    assert (row.mismatches, row.skipped) == (0, "")
    assert row.values > 1000


def test_a_huge_window_is_the_whole_image() -> None:
    op = model_of("AVERAGE_POOL_2D", DType.FLOAT32, "SAME").main.ops[0]
    op.attrs = pool_attrs("SAME", 64, 64, 1 << 16, 1 << 16)
    data = floats((1, 5, 5, 2))
    (result,) = get(op).evaluate(op, [data])
    assert result.shape == (1, 1, 1, 2)
    assert abs(result - data.mean(axis=(1, 2), keepdims=True)).max() < 1e-6


def test_unknown_sizes_stay_unknown_in_the_output() -> None:
    op = model_of("MAX_POOL_2D", DType.FLOAT32, "VALID").main.ops[0]
    op.inputs[0].shape = (None, 17, None, 8)  # type: ignore[union-attr]
    assert get(op).infer(op)[0].shape == (None, 14, None, 8)
