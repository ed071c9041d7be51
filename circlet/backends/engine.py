"""For backends that hand partitions to another engine as networks of their own.

An engine is asked by trying: a network of one op that it loads is one that it takes. Networks that
differ in names alone are one question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib.metadata import version
from typing import Protocol

import numpy as np

from circlet.artifact.file import Blob, PartitionCode
from circlet.backends.base import (
    BackendInfo,
    CompileAnew,
    Compiled,
    CompileJob,
    Executable,
    Runner,
)
from circlet.backends.models import ModelCompiler, submodel
from circlet.backends.plain import why_not_plain
from circlet.errors import BackendError, CircletError
from circlet.formats import dumps
from circlet.ir import Graph, Op, Origin, Tensor
from circlet.ir.copy import copy_of
from circlet.limits import Limits
from circlet.passes import make
from circlet.placement.interface import Reason, Supported
from circlet.plan.partition import Partition, partition
from circlet.target.targets import Target

_COPY_BYTES_PER_NS = 10.0  # one core, 16 KiB to 16 MiB: 5 to 20 measured on a server's CPU


class Engine(Protocol):
    """What a backend has to know of its engine.

    Attributes:
        format: The name of the format in which it is handed partitions.
        passes: Names of the passes, in order, after which the format can hold a partition.
    """

    format: str
    passes: Sequence[str]

    def check(self, model: bytes, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Load a network over such tensors.

        It may be a network of one op; where it is a whole partition, the whole must be taken.

        Raises:
            BackendError: The engine does not take it; `why` says so in a clause.
        """
        ...

    def runner(
        self,
        model: bytes,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        threads: int,
    ) -> Runner:
        """The engine on a network, between these buffers.

        Raises:
            BackendError: The engine cannot be started.
        """
        ...


class EngineBackend:
    """A backend whose partitions are model files that an engine runs.

    Args:
        name: What users write.
        title: What the engine is called.
        distribution: The package that holds it.
        engine: The engine.
        copies: Whether what goes in and out is copied.
    """

    def __init__(
        self, name: str, title: str, distribution: str, engine: Engine, *, copies: bool
    ) -> None:
        self.name, self._copies = name, copies
        self._title, self._distribution, self._engine = title, distribution, engine
        self._answers: dict[bytes, str] = {}

    def describe(self) -> BackendInfo:
        """Code of another engine, in host memory, on threads of its own."""
        speed = _COPY_BYTES_PER_NS if self._copies else float("inf")
        return BackendInfo(is_native=True, uses_threads=False, transfer_bytes_per_ns=speed)

    def toolchain(self) -> str:
        """The version of the engine."""
        return version(self._distribution)

    def diagnose(self) -> str:
        """The version of the engine."""
        return f"{self._title} {self.toolchain()}"

    def compiler(self, job: CompileJob) -> EngineCompiler:
        """What stores partitions for the engine."""
        return EngineCompiler(self.name, self._title, self._engine, self._answers, job)

    def load(self, code: PartitionCode, shared: Blob, limits: Limits) -> EngineExecutable:
        """The network of a partition."""
        return EngineExecutable(bytes(code.constants), self._engine)

    def resizer(self, loaded: Sequence[Executable], target: Target) -> CompileAnew:
        """Other sizes are other networks."""
        return CompileAnew(self, target)


class EngineCompiler(ModelCompiler):
    """Takes ops over fixed sizes, without state, that the engine takes.

    Args:
        name: The backend's name.
        title: What the engine is called.
        engine: The engine.
        answers: Why the engine refused networks, or "", by their digests; answers are added.
        job: What partitions are compiled for.
    """

    def __init__(
        self, name: str, title: str, engine: Engine, answers: dict[bytes, str], job: CompileJob
    ) -> None:
        super().__init__(job)
        self.name, self._title, self._engine = name, title, engine
        self._answers, self._supported = answers, dict[Op, Supported | Reason]()

    def supports(self, op: Op) -> Supported | Reason:
        """Whether the engine loads a network of this op alone."""
        if op not in self._supported:
            reason = self._refusal(op)
            self._supported[op] = Reason(reason) if reason else Supported(self._title)
        return self._supported[op]

    def stored(self, partition: Partition) -> bytes:
        """The partition as the file that the engine expects."""
        return self._written(partition, _name_apart)

    def compile(self, partitions: Sequence[Partition]) -> Compiled:
        """Each partition's model; those that the engine does not take as a whole are refused."""
        compiled = super().compile(partitions)
        refused: dict[int, str] = {}
        for part, made in zip(partitions, compiled.partitions, strict=True):
            model = bytes(next(iter(made.codes.values())).constants)
            if reason := self._asked(model, part):
                sources = {source.id for op in part.ops for source in op.origin.sources}
                refused.update(dict.fromkeys(sources, f"together with its neighbours: {reason}"))
        return Compiled((), refused=refused) if refused else compiled

    def _refusal(self, op: Op) -> str:
        reason = why_not_plain(op)
        if reason is not None:
            return reason
        alone = self._alone(op)
        try:
            question = self._written(alone, _name_by_place)
        except CircletError as error:
            return f"{error.what}: {error.why}" if error.why else error.what
        digest = blake2b(question).digest()
        if digest not in self._answers:
            self._answers[digest] = self._asked(question, alone)
        return self._answers[digest]

    def _asked(self, model: bytes, partition: Partition) -> str:
        try:
            self._engine.check(model, partition.inputs, partition.outputs)
        except BackendError as error:
            return error.why
        return ""

    def _written(self, partition: Partition, name: Callable[[Graph], None]) -> bytes:
        model = submodel(partition)
        for each in self._engine.passes:
            make(each).run(model.main)
        copy = copy_of(model)
        name(copy.main)
        return dumps(copy, self._engine.format, origins=False)

    def _alone(self, op: Op) -> Partition:
        given = [t for t in op.inputs if t is not None and not t.is_constant]
        graph = Graph(self.name, list(dict.fromkeys(given)), [*op.outputs], [op])
        (alone,) = partition(graph, {op: self.name})
        return alone


class EngineExecutable:
    """A network that any number of runners may read.

    Attributes:
        constants: The network's file, which holds its weights.
    """

    def __init__(self, model: bytes, engine: Engine) -> None:
        self._model, self._engine = model, engine
        self.constants = np.frombuffer(model, np.uint8)

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> Runner:
        """The engine between these buffers."""
        return self._engine.runner(self._model, inputs, outputs, threads)


def _name_apart(graph: Graph) -> None:
    """Give each tensor a name of its own, by which some engines find it."""
    taken: set[str] = set()
    for position, tensor in enumerate(graph.used_tensors()):
        if not tensor.name or tensor.name in taken:
            tensor.name = f"{tensor.name}#{position}"
        taken.add(tensor.name)


def _name_by_place(graph: Graph) -> None:
    """Name tensors and ops so that graphs which differ in names alone become the same."""
    for position, tensor in enumerate(graph.used_tensors()):
        tensor.name = f"#{position}"
    for position, op in enumerate(graph.ops):
        op.origin = Origin.of(position, f"#{position}")
