"""Spoilt recurrent operators: what the rules let through must be computed."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ops.verify import verify
from tests.recurrent import Lstm, lstm_graph, run_records, steps_for, svdf_graph

SCALES = (0.0, 1e-30, 1e-12, 1e-4, 0.1, 1e3, 1e12, 1e30, float("nan"), float("inf"))
VALUES: dict[type, tuple[object, ...]] = {
    bool: (True, False),
    int: (-1, 0, 1, 2, 3, 1 << 20),
    float: (-2.5, 1e-30, 3.5, 1e30, float("nan"), float("inf")),
    str: ("NONE", "TANH", "RELU", "RELU6", "SIGN_BIT", "FULL", "BASIC"),
}


def spoil(graph: Graph, random: np.random.Generator) -> None:
    op = graph.ops[0]
    tensors = [t for t in (*op.inputs, *op.outputs, *op.intermediates) if t is not None]
    tensor = tensors[random.integers(len(tensors))]
    choice = int(random.integers(7))
    if choice == 0:
        tensor.quant = Quantization.per_tensor(
            float(random.choice(SCALES)), int(random.choice([0, 5, -128, 300]))
        )
    elif choice == 1:
        resize(tensor, random)
    elif choice == 2:
        op.inputs[int(random.integers(len(op.inputs)))] = None
    elif choice == 3:
        op.inputs[int(random.integers(len(op.inputs)))] = tensor
    elif choice == 4:
        name, old = list(vars(op.attrs).items())[int(random.integers(len(vars(op.attrs))))]
        values = VALUES[type(old)]
        object.__setattr__(op.attrs, name, values[int(random.integers(len(values)))])
    elif choice == 5:
        tensor.is_variable = not tensor.is_variable
    else:
        del op.intermediates[int(random.integers(3)) :]


def resize(tensor: Tensor, random: np.random.Generator) -> None:
    shape = tuple(int(size) for size in random.choice([0, 1, 2, 3, 5], random.integers(4)))
    tensor.shape = shape
    if tensor.data is not None:
        tensor.data = np.resize(np.append(tensor.data, 1), shape).astype(tensor.data.dtype)


@pytest.mark.parametrize("kind", ["float", "stored", "svdf"])
def test_what_the_rules_let_through_is_computed(kind: str) -> None:
    random = np.random.default_rng(7)
    computed = 0
    for seed in range(400):
        if kind == "svdf":
            dtype = (DType.FLOAT32, DType.INT8, DType.INT16)[seed % 3]
            graph = svdf_graph((1, 3, 2, 2, 3), dtype, seed=seed)
        else:
            sizes = (1, 2, 3, 4, 2) if seed % 2 else (2, 1, 3, 2, 2)
            norm = seed % 3 == 0
            form = Lstm(sizes, stored=kind == "stored", look=seed % 5 == 0, norm=norm)
            graph = lstm_graph(form, seed)
        for _ in range(int(random.integers(1, 4))):
            spoil(graph, random)
        try:
            verify(graph)
        except CircletError:
            continue
        run_records(graph, steps_for(graph, 2))
        computed += 1
    assert computed > 20
