from __future__ import annotations

import numpy as np
import pytest

from circlet.formats import dumps, load
from circlet.ir import DType, Graph, Model
from circlet.ops.build import builder
from circlet.passes import make
from tests.evaluate import evaluate, random_inputs
from tests.sparse import Storage, sparse_constant

RNG = np.random.default_rng(17)


def layer(dtype: type, share: float, columns: int = 32) -> Graph:
    b = builder()
    values = (RNG.normal(0, 9, (8, columns // 4)) * (RNG.random((8, columns // 4)) < share)).round()
    w = b.constant("w", np.repeat(values, 4, 1).astype(dtype))
    x = b.input("x", DType.FLOAT32, (2, columns))
    return b.output(b.op("FULLY_CONNECTED", [x, w, None], name="y")).build()


@pytest.mark.parametrize("block", [1, 4])
def test_weights_of_many_zeros_are_stored_by_rows(block: int) -> None:
    graph = layer(np.float32, 0.2)
    inputs = random_inputs(graph)
    wanted = evaluate(graph, inputs)
    dense = np.array(graph.ops[0].inputs[1].data)  # type: ignore[union-attr]
    assert make("sparsify", block=block).run(graph)
    stored = graph.ops[0].inputs[1]
    order = (0, 1, 2) if block > 1 else (0, 1)
    same = sparse_constant("w", dense, Storage(order, (1,), ((1, 4),) if block > 1 else ()))
    assert stored is not None and stored.sparsity is not None and same.sparsity is not None
    assert vars(stored.sparsity) == vars(same.sparsity)
    np.testing.assert_array_equal(stored.data, same.data)
    again = make("unpack-constants")
    assert not make("sparsify", block=block).run(graph)
    assert again.run(graph)
    np.testing.assert_array_equal(evaluate(graph, inputs)[0], wanted[0])


def test_files_hold_it() -> None:
    graph = layer(np.float32, 0.1)
    plain = len(dumps(Model([graph]), "tflite"))
    make("sparsify").run(graph)
    data = dumps(Model([graph]), "tflite")
    assert len(data) < plain
    read = load(data).main.ops[0].inputs[1]
    assert read is not None and read.sparsity is not None


def test_dense_weights_and_others_than_those_named_stay() -> None:
    assert not make("sparsify").run(layer(np.float32, 1.0))
    assert make("sparsify", tensors=("w",)).run(layer(np.float32, 1.0))
    assert not make("sparsify", tensors=("other",)).run(layer(np.float32, 0.1))
    assert not make("sparsify", block=5).run(layer(np.float32, 0.1))
