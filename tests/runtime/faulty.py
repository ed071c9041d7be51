"""A backend from outside of the package that does what it is told to: fail, hang, or be right.

It also keeps values in memory of its own where it is asked to, and counts the copies.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from unittest.mock import patch

import numpy as np

from circlet.artifact.file import Blob, PartitionCode
from circlet.backends import registry
from circlet.backends.base import BackendInfo, CompileAnew, Compiled, CompileJob, Executable, Runner
from circlet.backends.models import ArrayRunner
from circlet.backends.reference.partition import ReferenceCompiler, ReferencePartition
from circlet.ir import Op
from circlet.limits import Limits
from circlet.placement.interface import Reason, Supported
from circlet.plan.partition import Partition
from circlet.target.targets import Target


@dataclass
class Behaviour:
    """What the backend does, and what was seen of it.

    Attributes:
        fails: The stages at which it raises an error of its own.
        raises: The class of that error.
        hangs: Whether runs wait until `gate` opens.
        shape: What each result is made of instead of its own shape.
        kinds: What it takes.
        memory: The kind of memory that runners keep values in, "" for the host's.
        log: Uploads, downloads, shared inputs, runs.
        parted: Set when a runner is given other buffers for its outputs.
        ended: Set when a run ended.
    """

    fails: set[str] = field(default_factory=set)
    raises: type[Exception] = OSError
    hangs: bool = False
    shape: tuple[int, ...] | None = None
    kinds: tuple[str, ...] = ("TANH",)
    memory: str = ""
    log: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    parted: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def check(self, stage: str) -> None:
        if stage in self.fails:
            raise self.raises(f"the device is on fire in {stage}")


class FaultyBackend:
    name = "faulty"

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour

    def describe(self) -> BackendInfo:
        memory = (self.behaviour.memory or "host",)
        return BackendInfo(is_native=False, uses_threads=False, memory=memory)

    def toolchain(self) -> str:
        self.behaviour.check("toolchain")
        return "faulty 1"

    def diagnose(self) -> str:
        return "faulty"

    def compiler(self, job: CompileJob) -> FaultyCompiler:
        self.behaviour.check("compiler")
        return FaultyCompiler(job, self.behaviour)

    def load(self, code: PartitionCode, shared: Blob, limits: Limits) -> FaultyPartition:
        self.behaviour.check("load")
        inner = ReferencePartition(code.constants, limits, code.section("work"))
        return FaultyPartition(inner, self.behaviour)

    def resizer(self, loaded: Sequence[Executable], target: Target) -> CompileAnew:
        return CompileAnew(self, target)


class FaultyCompiler(ReferenceCompiler):
    name = "faulty"

    def __init__(self, job: CompileJob, behaviour: Behaviour) -> None:
        super().__init__(job)
        self.behaviour = behaviour

    def supports(self, op: Op) -> Supported | Reason:
        self.behaviour.check("supports")
        takes = op.kind in self.behaviour.kinds
        return super().supports(op) if takes else Reason("another kind")

    def optimize(self, partition: Partition) -> Partition:
        self.behaviour.check("optimize")
        return partition

    def compile(self, partitions: Sequence[Partition]) -> Compiled:
        if partitions:
            self.behaviour.check("compile")
        return super().compile(partitions)


class FaultyPartition:
    def __init__(self, inner: ReferencePartition, behaviour: Behaviour) -> None:
        self._inner, self._behaviour = inner, behaviour

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> Runner:
        self._behaviour.check("bind")
        kind = DeviceRunner if self._behaviour.memory else FaultyRunner
        return kind(self._inner, self._behaviour, inputs, outputs)


class FaultyRunner(ArrayRunner):
    def __init__(
        self,
        inner: ReferencePartition,
        behaviour: Behaviour,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        super().__init__(inputs, outputs)
        self._inner, self.behaviour = inner, behaviour

    def run(self, timeout_ns: int = 0) -> None:
        self.behaviour.log.append("run")
        if self.behaviour.hangs:
            self.behaviour.gate.wait()
        self._compute()
        self.behaviour.ended.set()

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        super().set_output(index, buffer)
        self.behaviour.parted.set()

    def _compute(self) -> None:
        self.behaviour.check("run")
        if self.behaviour.shape is not None:
            self.outputs = [np.zeros(self.behaviour.shape, np.float32) for _ in self.outputs]
            return
        self._inner.bind(self.inputs, self.outputs, 1).run()


class DeviceRunner(FaultyRunner):
    """Computes on copies of its inputs; memory is a list of one array."""

    def __init__(
        self,
        inner: ReferencePartition,
        behaviour: Behaviour,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        super().__init__(inner, behaviour, inputs, outputs)
        self.memory = behaviour.memory
        self._given: list[list[np.ndarray]] = [[np.empty(0)] for _ in inputs]
        self._made: list[list[np.ndarray]] = [[np.empty(0)] for _ in outputs]

    def run(self, timeout_ns: int = 0) -> None:
        self.behaviour.log.append("run")
        self.behaviour.check("run")
        results = [np.empty_like(array) for array in self.outputs]
        self._inner.bind([home[0] for home in self._given], results, 1).run()
        for home, result in zip(self._made, results, strict=True):
            home[0] = result

    def upload(self, index: int) -> None:
        self.behaviour.check("upload")
        self.behaviour.log.append("upload")
        self._given[index][0] = self.inputs[index].copy()

    def download(self, index: int) -> None:
        self.behaviour.log.append("download")
        self.outputs[index][...] = self._made[index][0]

    def input_memory(self, index: int) -> object:
        return self._given[index]

    def output_memory(self, index: int) -> object:
        return self._made[index]

    def share_input(self, index: int, memory: object) -> bool:
        assert isinstance(memory, list)
        self.behaviour.log.append("share")
        self._given[index] = memory
        return True


_current: list[Behaviour] = []


def make() -> FaultyBackend:
    """What the entry point calls."""
    return FaultyBackend(_current[-1])


@contextmanager
def installed(behaviour: Behaviour) -> Iterator[Behaviour]:
    """Have the registry find the backend as one of another package."""
    entry = EntryPoint(name="faulty", value="tests.runtime.faulty:make", group=registry.GROUP)
    _current.append(behaviour)
    registry.find_backend.cache_clear()
    try:
        with patch.object(registry, "_installed", lambda: iter([entry])):
            yield behaviour
    finally:
        behaviour.gate.set()
        _current.pop()
        registry.find_backend.cache_clear()
