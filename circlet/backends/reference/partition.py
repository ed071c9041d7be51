"""Partitions that numpy runs: models in artifacts, evaluated by the records of their ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.artifact.file import PartitionCode
from circlet.backends.base import Compiled, CompiledPartition
from circlet.backends.submodel import submodel
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
from circlet.target.targets import Target


class ReferenceCompiler:
    """Takes every op whose record covers its types."""

    name = "reference"

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = targets

    def supports(self, op: Op) -> Supported | Reason:
        """Whether the op has a record for its types."""
        reason = unsupported_reason(op)
        return Supported("numpy") if reason is None else Reason(reason)

    def optimize(self, partition: Partition) -> Partition:
        """The partition as it is."""
        return partition

    def compile(self, partitions: Sequence[Partition]) -> Compiled:
        """Each partition as a model where native code has its constants, the same for all targets.

        Raises:
            FormatError: An op cannot be stored.
        """
        return Compiled(tuple(map(self._compiled, partitions)))

    def memory(self, partition: Partition) -> None:
        """numpy allocates as it goes."""

    def _compiled(self, partition: Partition) -> CompiledPartition:
        code = PartitionCode(self.name, _stored(partition), {})
        return CompiledPartition(dict.fromkeys(self._targets, code))


def _stored(partition: Partition) -> bytes:
    model = submodel(partition)
    try:
        return dumps(model, "circle")
    except FormatError:  # Newer types and options of TFLite are unknown to Circle.
        return dumps(model, "tflite", origins=True)


class ReferencePartition:
    """A graph, read from the .circle bytes in the artifact, that its records evaluate."""

    def __init__(self, model: bytes | memoryview, limits: Limits = DEFAULT_LIMITS) -> None:
        self._graph = load(model, limits).main
        self._limits = limits
        unsupported_report(self._graph)

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> _BoundReference:
        """Read and write these buffers; numpy decides about threads itself."""
        return _BoundReference(self._graph, self._limits, list(inputs), list(outputs))


class _BoundReference:
    def __init__(
        self,
        graph: Graph,
        limits: Limits,
        inputs: list[np.ndarray],
        outputs: list[np.ndarray],
    ) -> None:
        self._graph = graph
        self._limits = limits
        self._inputs = inputs
        self._outputs = outputs
        self._cancelled = False

    def run(self, timeout_ns: int = 0) -> None:
        self._cancelled = False
        deadline = deadline_after(timeout_ns)

        def check() -> None:
            if self._cancelled:
                raise CancelledError("the run was cancelled")
            time_left(deadline)

        results = evaluate_graph(self._graph, self._inputs, Guard(check, self._limits))
        for index, (tensor, result) in enumerate(zip(self._graph.outputs, results, strict=True)):
            if None in tensor.shape:
                self._outputs[index] = result
                continue
            target = self._outputs[index]
            if target.shape != result.shape:
                raise _other_shape(tensor.name, target.shape, result.shape)
            target[...] = result

    def output(self, index: int) -> np.ndarray:
        """The array that the last run left at output `index`."""
        return self._outputs[index]

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        self._inputs[index] = buffer

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        self._outputs[index] = buffer

    def cancel(self) -> None:
        """Stop a run in progress before its next operator."""
        self._cancelled = True


def _other_shape(name: str, planned: tuple[int, ...], got: tuple[int, ...]) -> BackendError:
    return BackendError(
        "a result has another shape than planned",
        where=name,
        why=f"it is {list(got)}, planned were {list(planned)}; the shape depends on the data",
    )
