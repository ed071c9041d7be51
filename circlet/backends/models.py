"""For backends that run whole models: partitions stored as model files, and arrays in and out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.artifact.file import PartitionCode
from circlet.backends.base import Compiled, CompiledPartition, CompileJob, Observer
from circlet.errors import BackendError
from circlet.formats import dumps
from circlet.ir import Graph, Model, Op
from circlet.ir.regions import reachable
from circlet.placement.interface import Reason, Supported
from circlet.plan.partition import Partition


def submodel(partition: Partition) -> Model:
    """A model whose main graph is the partition; ops and tensors are those of the network."""
    graph = Graph(partition.backend, [*partition.inputs], [*partition.outputs], [*partition.ops])
    intermediates = (tensor for op in graph.ops for tensor in op.intermediates)
    graph.tensors = list(dict.fromkeys([*graph.used_tensors(), *intermediates]))
    return Model(reachable(graph))


class ModelCompiler:
    """Keeps each partition as the bytes of a model where native code has its constants.

    A backend says what it takes in `supports`, and in `stored` how it wants a partition.

    Attributes:
        name: The backend's name.
    """

    name = ""

    def __init__(self, job: CompileJob) -> None:
        self.job = job

    def supports(self, op: Op) -> Supported | Reason:
        """Whether the backend takes an op."""
        raise NotImplementedError

    def stored(self, partition: Partition) -> bytes:
        """The partition as a .tflite file; FormatError where that cannot hold it."""
        return dumps(submodel(partition), "tflite", origins=True)

    def sections(self) -> dict[str, tuple[bytes, ...]]:
        """What the artifact keeps of each partition besides."""
        return {}

    def optimize(self, partition: Partition) -> Partition:
        """The partition as it is."""
        return partition

    def compile(self, partitions: Sequence[Partition]) -> Compiled:
        """Each partition's model, the same for all targets; raises as `stored`."""
        return Compiled(tuple(map(self._compiled, partitions)))

    def memory(self, partition: Partition) -> None:
        """What runs the model allocates for itself."""

    def _compiled(self, partition: Partition) -> CompiledPartition:
        for tensor in {t for graph in submodel(partition).graphs for t in graph.constants()}:
            self.job.budget.charge_packed(tensor.size_bytes, tensor.name)
        code = PartitionCode(self.name, self.stored(partition), self.sections())
        return CompiledPartition(dict.fromkeys(self.job.targets, code))


class ArrayRunner:
    """The buffers of a runner that reads and writes them in Python; a subclass adds `run`."""

    def __init__(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.is_cancelled = False

    def output(self, index: int) -> np.ndarray:
        """The array that the last run left at output `index`."""
        return self.outputs[index]

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        """Read input `index` from another array from now on."""
        self.inputs[index] = buffer

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        """Write output `index` to another array from now on."""
        self.outputs[index] = buffer

    def cancel(self) -> None:
        """Ask a run in progress to stop where it looks next."""
        self.is_cancelled = True

    def observe(self, observer: Observer | None) -> None:
        """Refuse: what runs whole models does not show their ops."""
        if observer is not None:
            raise BackendError(
                "a backend shows nothing of its operators",
                why="it runs partitions as a whole",
                fix="run the network on the backends cpu and reference to observe it",
            )
