"""Networks whose golden answer is a peer's error, judged by the arithmetic on real numbers."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.formats import load
from circlet.ir import Model
from circlet.ops.dense import blockwise_real
from circlet.runtime.session import Session
from tests.corpora import corpus

EINSUMS = (
    "models/static_w8_a16_attn_vec_einsum.tflite",
    "models/static_w8_a16_q_einsum.tflite",
    "singleop/models/LiteRT__test_testdata_static_w8_a16_quantized_k_einsum.tflite",
    "singleop/models/LiteRT__test_testdata_static_w8_a16_quantized_v_einsum.tflite",
)


def product_of(model: Model, x: np.ndarray) -> np.ndarray:
    """The steps of the one product of a network, from real numbers."""
    (op,) = [op for op in model.main.ops if op.kind == "BATCH_MATMUL"]
    weights, result = op.inputs[1], op.outputs[0]
    assert weights is not None and weights.data is not None and weights.quant is not None
    assert result.quant is not None and op.inputs[0] is not None and op.inputs[0].quant is not None
    real = weights.data.astype(np.float64) * weights.quant.scale
    rows = x.reshape(-1, real.shape[0]) * float(op.inputs[0].quant.scale[0])
    steps = rows @ real / float(result.quant.scale[0])
    return np.asarray(np.clip(np.round(steps), -32768, 32767))


@pytest.mark.parametrize("name", EINSUMS)
def test_einsums_use_the_scale_of_each_column(name: str) -> None:
    path = corpus(name)
    session = Session(path, cache=False)
    (source,) = session.inputs
    x = np.random.default_rng(2).integers(-32768, 32767, source.shape).astype(np.int16)
    (result,) = session.run([x]).values()
    wanted = product_of(load(path), x)
    assert np.abs(result.reshape(wanted.shape) - wanted).max() <= 1
    assert len(np.unique(result)) > 100


def test_blocks_of_4_bit_weights_use_their_scales() -> None:
    path = corpus("models/qwen_fc_blockwise_int4.tflite")
    session = Session(path, cache=False)
    x = np.random.default_rng(2).standard_normal((1, 1, 1024)).astype(np.float32)
    (result,) = session.run([x]).values()
    graph = load(path).main
    weights = graph.ops[0].inputs[1]
    assert weights is not None
    real = blockwise_real(weights)
    assert real is not None
    wanted = x.astype(np.float64) @ real.T
    assert np.abs(result - wanted).max() <= 0.02 * np.abs(wanted).max()  # of inputs of 8 bits
    assert all(row["backend"] == "cpu" for row in session.placement)
