"""Runs a graph op by op with the records' numpy semantics."""

from __future__ import annotations

import numpy as np

from circlet.ir import Graph, Tensor
from circlet.ops.evaluate import evaluate_graph


def evaluate(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The graph's outputs for the given inputs, which follow `graph.inputs`."""
    return evaluate_graph(graph, inputs)


def random_inputs(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Seeded values for every graph input: normal floats, or integers over the whole range."""
    generator = np.random.default_rng(seed)
    return [_random(tensor, generator) for tensor in graph.inputs]


def _random(tensor: Tensor, generator: np.random.Generator) -> np.ndarray:
    shape, kind = tensor.static_shape, tensor.dtype.numpy
    if not tensor.dtype.is_integer:
        return generator.normal(0, 4, shape).astype(kind)
    info = np.iinfo(tensor.dtype.name.lower())
    return generator.integers(info.min, info.max, shape, kind, endpoint=True)
