"""Backends whose runs take exactly what a formula says, by a clock that only they advance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from circlet.artifact.file import Blob, PartitionCode
from circlet.backends import registry
from circlet.backends.base import BackendInfo, CompileAnew, CompileJob, Executable
from circlet.backends.models import ArrayRunner, ModelCompiler
from circlet.formats import load
from circlet.ir import Graph, Op
from circlet.limits import Limits
from circlet.ops import find
from circlet.placement.interface import Reason, Supported
from circlet.target.targets import Target


@dataclass
class FakeClock:
    """Nanoseconds that pass only when a fake backend runs."""

    now: int = 0

    def __call__(self) -> int:
        """Nanoseconds now."""
        return self.now


@dataclass(frozen=True)
class Formula:
    """What runs take: a call, each byte in and out, and operators by their records.

    Attributes:
        noise: Every tenth run takes this many times as long.
        by_threads: Whether operators take their time divided by the threads.
    """

    call_ns: float = 2000.0
    byte_ns: float = 0.05
    op_ns: float = 500.0
    mac_ns: float = 0.25
    moved_ns: float = 0.125
    noise: float = 1.0
    by_threads: bool = False

    def operator(self, op: Op) -> float:
        """Nanoseconds of an operator."""
        record = find(op.label)
        assert record is not None
        cost = record.cost(op)
        return self.op_ns + self.mac_ns * cost.computing + self.moved_ns * cost.bytes


class FakeBackend:
    """Takes everything but what is named, and computes nothing."""

    def __init__(
        self, name: str, clock: FakeClock, formula: Formula, refuses: frozenset[str]
    ) -> None:
        self.name, self.clock, self.formula, self.refuses = name, clock, formula, refuses
        self.version = "1"

    def describe(self) -> BackendInfo:
        """A device behind a slow bus, as it says of itself."""
        return BackendInfo(
            is_native=True,
            uses_threads=True,
            transfer_latency_ns=7000.0,
            transfer_bytes_per_ns=2.0,
        )

    def toolchain(self) -> str:
        """What costs depend on."""
        return f"{self.name} {self.version}"

    def diagnose(self) -> str:
        """It works."""
        return self.name

    def compiler(self, job: CompileJob) -> FakeCompiler:
        """What stores partitions."""
        return FakeCompiler(self, job)

    def load(self, code: PartitionCode, shared: Blob, limits: Limits) -> FakeExecutable:
        """A partition."""
        return FakeExecutable(self, load(code.constants, limits).main)

    def resizer(self, loaded: Sequence[Executable], target: Target) -> CompileAnew:
        """Other sizes are stored anew."""
        return CompileAnew(self, target)


class FakeCompiler(ModelCompiler):
    """Stores partitions as models."""

    def __init__(self, backend: FakeBackend, job: CompileJob) -> None:
        super().__init__(job)
        self.name, self._refuses = backend.name, backend.refuses

    def supports(self, op: Op) -> Supported | Reason:
        """Whether the kind is not refused."""
        return Reason("refused by test") if op.label in self._refuses else Supported("fake")


@dataclass(frozen=True)
class FakeExecutable:
    """A loaded partition."""

    backend: FakeBackend
    graph: Graph

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> FakeRunner:
        """Read and write these arrays."""
        return FakeRunner(self, inputs, outputs, threads)


class FakeRunner(ArrayRunner):
    """Lets time pass."""

    def __init__(
        self,
        code: FakeExecutable,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        threads: int,
    ) -> None:
        super().__init__(inputs, outputs)
        formula, self._clock, self._runs = code.backend.formula, code.backend.clock, 0
        moved = sum(array.nbytes for array in (*inputs, *outputs))
        ops = sum(map(formula.operator, code.graph.ops))
        share = threads if formula.by_threads else 1
        self._ns = formula.call_ns + formula.byte_ns * moved + ops / share
        self._noise = formula.noise

    def run(self, timeout_ns: int = 0) -> None:
        """Take the time, and more of it every tenth time."""
        self._runs += 1
        self._clock.now += round(self._ns * (self._noise if self._runs % 10 == 0 else 1.0))


@dataclass
class Fakes:
    """Fake backends that are found by name."""

    clock: FakeClock = field(default_factory=FakeClock)
    known: dict[str, FakeBackend] = field(default_factory=dict)

    def add(self, name: str, formula: Formula, refuses: tuple[str, ...] = ()) -> FakeBackend:
        """A backend of a name."""
        made = self.known[name] = FakeBackend(name, self.clock, formula, frozenset(refuses))
        registry.find_backend.cache_clear()
        return made

    def entries(self) -> Iterator[Entry]:
        """What stands for installed packages."""
        yield from (Entry(backend) for backend in self.known.values())


@dataclass(frozen=True)
class Entry:
    """An entry point of a fake backend."""

    backend: FakeBackend
    value: str = "tests"

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.backend.name

    def load(self) -> object:
        """What makes it."""
        return lambda: self.backend


@pytest.fixture(name="fakes")
def fakes_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fakes]:
    """Fake backends, gone after the test."""
    fakes = Fakes()
    monkeypatch.setattr(registry, "_installed", fakes.entries)
    yield fakes
    registry.find_backend.cache_clear()
