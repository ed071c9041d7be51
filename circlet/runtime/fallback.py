"""The partitions of a plan that numpy runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.backends.reference import evaluate_graph
from circlet.formats import load
from circlet.ir import Graph


class ReferencePartition:
    """A graph, read from the .circle bytes in the artifact, that its records evaluate."""

    def __init__(self, model: bytes | memoryview) -> None:
        self._graph = load(model).main

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> _BoundReference:
        """Read and write these buffers; numpy decides about threads itself."""
        return _BoundReference(self._graph, list(inputs), list(outputs))


class _BoundReference:
    def __init__(self, graph: Graph, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        self._graph = graph
        self._inputs = inputs
        self._outputs = outputs

    def run(self, timeout_ns: int = 0) -> None:
        results = evaluate_graph(self._graph, self._inputs)
        for target, result in zip(self._outputs, results, strict=True):
            target[...] = result

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        self._inputs[index] = buffer

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        self._outputs[index] = buffer

    def cancel(self) -> None:
        """Numpy cannot be stopped; the executor stops before the next partition."""
