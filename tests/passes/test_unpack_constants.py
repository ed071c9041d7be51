from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import LimitError
from circlet.formats import load
from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ir.graph import Sparsity
from circlet.limits import MemoryBudget
from circlet.ops.build import builder
from circlet.ops.dense import densifying_bytes
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.passes import make
from circlet.passes.unpack_constants import UnpackConstants
from tests.corpora import corpus

CSR = {"format": "SPARSE_CSR", "dense_size": 0}


def vector(*values: int) -> dict[str, object]:
    return {"table": "Uint8Vector", "values": values}


def dense(size: int) -> dict[str, object]:
    return {"format": "DENSE", "dense_size": size, "array_segments": None, "array_indices": None}


def with_weights(weights: Tensor) -> Graph:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, weights.static_shape[1]))
    b.graph.tensors.append(weights)
    y = b.op("FULLY_CONNECTED", [x, weights], FullyConnectedAttrs(), name="y")
    return b.output(y).build()


def sparse(segments: tuple[int, ...], indices: tuple[int, ...]) -> Tensor:
    row = {**CSR, "array_segments": vector(*segments), "array_indices": vector(*indices)}
    stored = np.array([1.0, 2.0, 3.0], np.float32).view(np.uint8)
    storage = Sparsity([0, 1], [], [dense(3), row])
    return Tensor("w", DType.FLOAT32, (3, 4), data=stored, sparsity=storage)


def test_rows_of_stored_elements_become_dense() -> None:
    weights = sparse((0, 2, 2, 3), (1, 3, 0))
    assert make("unpack-constants").run(with_weights(weights))
    np.testing.assert_array_equal(weights.data, [[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, 0]])


@pytest.mark.parametrize(
    ("segments", "indices"),
    [((0, 2), (1, 3)), ((0, 2, 2, 3), (1, 9, 0)), ((0, 3, 2, 3), (1, 2, 0)), ((0, 2, 2, 9), (1,))],
)
def test_broken_storage_stays(segments: tuple[int, ...], indices: tuple[int, ...]) -> None:
    weights = sparse(segments, indices)
    assert not make("unpack-constants").run(with_weights(weights))
    assert weights.sparsity is not None


def test_blocks_of_the_corpus_become_dense() -> None:
    graph = load(corpus("singleop/models/ONE_recipe__FullyConnected_004.tflite")).main
    weights = graph.ops[0].inputs[1]
    assert weights is not None and make("unpack-constants").run(graph)
    assert weights.data is not None and weights.data.shape == (4, 4)
    assert np.count_nonzero(weights.data[:2, 2:]) and weights.sparsity is None


def test_halves_of_bytes_become_bytes() -> None:
    packed = np.array([0x7F, 0x80, 0x01], np.uint8)
    quant = Quantization.per_tensor(0.5)
    weights = Tensor("w", DType.INT4, (1, 6), quant, data=packed)
    assert make("unpack-constants").run(with_weights(weights))
    assert weights.dtype is DType.INT8
    np.testing.assert_array_equal(weights.data, [[-1, 7, 0, -8, 1, 0]])


def test_scales_per_block_give_real_values() -> None:
    graph = load(corpus("models/qwen_fc_blockwise_int4.tflite")).main
    weights = graph.ops[0].inputs[1]
    assert weights is not None and weights.data is not None
    packed, scales = weights.data.copy(), graph.tensors[3].data
    assert make("unpack-constants").run(graph)
    assert weights.dtype is DType.FLOAT32 and scales is not None and weights.data is not None
    low = (int(packed[0]) & 15 ^ 8) - 8
    assert weights.data[0, 0] == np.float32(low) * scales.astype(np.float32)[0, 0]


@pytest.mark.parametrize(("short", "is_enough"), [(1, False), (0, True)])
def test_plain_forms_are_charged_before_they_are_made(short: int, is_enough: bool) -> None:
    weights = sparse((0, 2, 2, 3), (1, 3, 0))
    graph, budget = with_weights(weights), MemoryBudget(48 + densifying_bytes(weights) - short)
    if is_enough:
        assert UnpackConstants(budget).run(graph) and budget.taken == 48
        return
    with pytest.raises(LimitError, match="where: w"):
        UnpackConstants(budget).run(graph)


def test_storage_of_more_places_than_stored_elements_stays() -> None:
    every = [dense(1 << 14), dense(1 << 14)]
    stored = np.zeros(4, np.uint8)
    sparsity = Sparsity([0, 1], [], every)
    weights = Tensor("w", DType.INT8, (1 << 14, 1 << 14), data=stored, sparsity=sparsity)
    assert not UnpackConstants().run(with_weights(weights))
