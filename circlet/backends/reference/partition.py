"""Partitions that numpy runs: models in artifacts, evaluated by the records of their ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.backends.models import ArrayRunner, ModelCompiler, submodel
from circlet.deadline import deadline_after, time_left
from circlet.errors import BackendError, CancelledError, FormatError
from circlet.formats import dumps, load
from circlet.ir import Graph, Op
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops import unsupported_reason
from circlet.ops.evaluate import Guard, evaluate_graph
from circlet.ops.verify import unsupported_report
from circlet.placement.interface import Reason, Supported
from circlet.plan.partition import Partition


class ReferenceCompiler(ModelCompiler):
    """Takes every op whose record covers its types."""

    name = "reference"

    def supports(self, op: Op) -> Supported | Reason:
        """Whether the op has a record for its types."""
        reason = unsupported_reason(op)
        return Supported("numpy") if reason is None else Reason(reason)

    def stored(self, partition: Partition) -> bytes:
        """The partition as a .circle file; newer types and options of TFLite as a .tflite one."""
        try:
            return dumps(submodel(partition), "circle")
        except FormatError:
            return super().stored(partition)


class ReferencePartition:
    """A graph, read from the model in the artifact, that its records evaluate."""

    def __init__(self, model: bytes | memoryview, limits: Limits = DEFAULT_LIMITS) -> None:
        self._graph = load(model, limits).main
        self._limits = limits
        unsupported_report(self._graph)

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> _Runner:
        """Read and write these buffers; numpy decides about threads itself."""
        return _Runner(self._graph, self._limits, inputs, outputs)


class _Runner(ArrayRunner):
    def __init__(
        self,
        graph: Graph,
        limits: Limits,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        super().__init__(inputs, outputs)
        self._graph, self._limits = graph, limits

    def run(self, timeout_ns: int = 0) -> None:
        self.is_cancelled = False
        deadline = deadline_after(timeout_ns)

        def check() -> None:
            if self.is_cancelled:
                raise CancelledError("the run was cancelled")
            time_left(deadline)

        results = evaluate_graph(self._graph, self.inputs, Guard(check, self._limits))
        for index, (tensor, result) in enumerate(zip(self._graph.outputs, results, strict=True)):
            if None in tensor.shape:
                self.outputs[index] = result
                continue
            target = self.outputs[index]
            if target.shape != result.shape:
                raise _other_shape(tensor.name, target.shape, result.shape)
            target[...] = result


def _other_shape(name: str, planned: tuple[int, ...], got: tuple[int, ...]) -> BackendError:
    return BackendError(
        "a result has another shape than planned",
        where=name,
        why=f"it is {list(got)}, planned were {list(planned)}; the shape depends on the data",
    )
