"""The whole contract of a backend, from the question whether it takes an op to a run.

    find_backend(name) -> Backend          registry.py
      .compiler(job) -> PartitionCompiler  supports, optimize, compile, memory
      .load(code, shared, limits) -> Executable
        .bind(inputs, outputs, threads) -> Runner
          .run()

A backend is one folder (or a package of somebody else's) and one entry point. `Backend` objects
have no state and are cheap to import: a start that finds its artifact in the cache loads code and
nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from circlet.artifact.file import Blob, PartitionCode
from circlet.limits import DEFAULT_LIMITS, Limits, MemoryBudget
from circlet.options import DEFAULT_LEVEL, DEFAULT_PRECISION, Options
from circlet.passes.derived import Derived
from circlet.placement.interface import Reason, Supported
from circlet.plan.sizes import SizeTable
from circlet.target.targets import Target

if TYPE_CHECKING:
    from circlet.ir import Op, Tensor
    from circlet.plan.partition import Partition

Setter = Callable[[int, np.ndarray], None]
NO_FACTS: Mapping[str, object] = {}


@dataclass(frozen=True)
class BackendInfo:
    """What a backend is.

    Attributes:
        is_native: Whether it runs code that was compiled for the target.
        uses_threads: Whether a run uses the threads of its session.
        memory: The kinds of memory that values of its partitions may lie in, the preferred one
            first: "host", or a name of the backend's own.
        transfer_latency_ns: What a transfer to or from host memory costs at the least.
        transfer_bytes_per_ns: How fast larger ones are; infinite where nothing is copied.
        abi: Version of what its code and its runtime library agree on, "" where there is neither.
    """

    is_native: bool
    uses_threads: bool
    memory: tuple[str, ...] = ("host",)
    transfer_latency_ns: float = 0.0
    transfer_bytes_per_ns: float = float("inf")
    abi: str = ""


@dataclass(frozen=True)
class CompileJob:
    """What all partitions of a network are compiled with.

    Attributes:
        options: What the session, or the artifact, was asked for.
        targets: What to compile for, `options.target` resolved.
        constant_names: A name for each constant of the model that is the same at every size of its
            inputs; backends may add names of others.
        loaded: Backends that have code of the network at other sizes of its inputs loaded; None
            where it was never compiled.
        budget: What may be taken of memory; backends charge what they make and what a run takes.
        most_work: Elementary operations that one run may do, loops and all.
        sizes: What is known of sizes that the data of a run decides.
        derived: What passes made of the model's constants at other sizes of its inputs.
    """

    options: Options
    targets: tuple[Target, ...]
    constant_names: MutableMapping[Tensor, str] = field(default_factory=dict)
    loaded: frozenset[str] | None = None
    budget: MemoryBudget = field(default_factory=partial(DEFAULT_LIMITS.memory_budget, 0))
    most_work: int = 2**62
    sizes: SizeTable = field(default_factory=SizeTable)
    derived: Derived = field(default_factory=Derived)

    @property
    def is_resized(self) -> bool:
        """Whether the network was compiled before, for other sizes of its inputs."""
        return self.loaded is not None

    @property
    def level(self) -> str:
        """The optimisation level."""
        return self.options.level or DEFAULT_LEVEL

    @property
    def precision(self) -> str:
        """What operands of float products may be rounded to."""
        return self.options.precision or DEFAULT_PRECISION


@dataclass(frozen=True)
class CompiledPartition:
    """What an artifact keeps of a partition.

    Attributes:
        codes: Its code for each target of the job.
        facts: What loading and reports may ask of it, as plain data for the artifact's metadata.
    """

    codes: Mapping[Target, PartitionCode]
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiled:
    """All partitions of one backend.

    Attributes:
        partitions: In the order in which they were given.
        shared: What they share, for each target; empty where there is nothing.
        facts: What the artifact's metadata says of all of them together.
        report: What a report of the compilation may tell besides, as plain data.
        refused: Ids of the source operators that turned out to be too many, and why in a clause;
            where there are any, nothing was compiled, and others are to run them.
    """

    partitions: tuple[CompiledPartition, ...]
    shared: Mapping[Target, Blob] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """The working memory of a partition.

    Attributes:
        arena_bytes: Size of the plan's arena.
        lower_bound_bytes: What no plan can go below: the bytes alive at the peak.
        planner: Which planner made the plan.
        peak_op, peak_kind: The op that runs at the peak.
        peak_tensors: What is alive then: name and bytes, largest first.
        constants_bytes: Packed weights and tables.
        once: What is computed once for all runs and stays beside the arena: name and bytes, largest
            first.
        once_bytes: What that takes.
        rounded_ops: Operators that round their operands to bfloat16.
        scratch_bytes: What each thread of a run has besides.
        stripes: Operators that run stripe by stripe, how many stripes, and the bytes of scratch
            memory that their rows take.
    """

    arena_bytes: int
    lower_bound_bytes: int
    planner: str
    peak_op: str
    peak_kind: str
    peak_tensors: tuple[tuple[str, int], ...]
    constants_bytes: int
    rounded_ops: int = 0
    scratch_bytes: int = 0
    stripes: tuple[tuple[str, int, int], ...] = ()
    once: tuple[tuple[str, int], ...] = ()
    once_bytes: int = 0


@dataclass(frozen=True)
class ObservedValue:
    """A result of an op that has just run.

    Attributes:
        name: The tensor's name.
        array: A read-only view, valid until the observer returns; copy what is to be kept.
        scale, zero_point: Quantisation along `axis`, empty where there is none.
    """

    name: str
    array: np.ndarray
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0


@dataclass(frozen=True)
class Observation:
    """An op that has just run.

    Attributes:
        kind: The op's kind; fused ops are one op.
        name: The user's names of what it descends from.
        ns: Nanoseconds that it took.
        values: Its results, as far as they lie in memory.
    """

    kind: str
    name: str
    ns: int
    values: tuple[ObservedValue, ...]


Observer = Callable[[Observation], None]


class Runner(Protocol):
    """One partition on bound buffers."""

    @property
    def run(self) -> Callable[..., None]:
        """Compute the partition's outputs; takes a timeout in nanoseconds, 0 for none."""
        ...

    def output(self, index: int) -> np.ndarray:
        """The array that output `index` is in after a run."""
        ...

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        """Read input `index` from another array from now on."""
        ...

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        """Write output `index` to another array from now on."""
        ...

    def cancel(self) -> None:
        """Stop a run in progress soon, inside of a long operator too."""
        ...

    def observe(self, observer: Observer | None) -> None:
        """Tell an observer of every op that runs from now on, or nobody any more.

        An error that it raises ends the run.

        Raises:
            BackendError: The backend cannot look into its partitions.
        """
        ...


class Executable(Protocol):
    """A loaded partition that can be bound to buffers, any number of times."""

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> Runner:
        """A runner that reads and writes these arrays, with an arena of its own."""
        ...


class PartitionCompiler(Protocol):
    """A backend at work on one network."""

    @property
    def name(self) -> str:
        """The backend's name."""
        ...

    def supports(self, op: Op) -> Supported | Reason:
        """Whether the backend takes an op for every target of the job, never a bare yes or no."""
        ...

    def optimize(self, partition: Partition) -> Partition:
        """The partition after the backend's own graph passes."""
        ...

    def compile(self, partitions: Sequence[Partition]) -> Compiled:
        """Code of partitions that `optimize` gave.

        Raises:
            CircletError: It cannot be made; nothing is kept.
        """
        ...

    def memory(self, partition: Partition) -> MemoryUse | None:
        """What a partition needs for the first target, None where the backend plans no memory."""
        ...


class Resizer(Protocol):
    """Makes partitions of a network that is loaded ready for other sizes of its inputs."""

    def resized(
        self, compiler: PartitionCompiler, partitions: Sequence[Partition], limits: Limits
    ) -> Sequence[tuple[Executable, Mapping[str, object]]]:
        """Executables and facts of partitions for other sizes; safe to call from any thread."""
        ...


class Backend(Protocol):
    """A way to run partitions, found by name."""

    @property
    def name(self) -> str:
        """The name users write in `backends=`."""
        ...

    def describe(self) -> BackendInfo:
        """What the backend is."""
        ...

    def toolchain(self) -> str:
        """What compiles, as a text that differs where compiled code may differ; "" for nothing.

        Raises:
            CircletError: What compiles is not there.
        """
        ...

    def diagnose(self) -> str:
        """Whether the backend works on this machine, in a line.

        Raises:
            CircletError: It does not.
        """
        ...

    def compiler(self, job: CompileJob) -> PartitionCompiler:
        """What compiles the partitions of one network.

        Raises:
            CircletError: The options cannot be met; or `strict`, and what compiles is not there.
        """
        ...

    def load(self, code: PartitionCode, shared: Blob, limits: Limits) -> Executable:
        """What runs a partition of an artifact; `shared` is what its partitions share.

        Raises:
            ArtifactError: The code is damaged. What is no `CircletError` is told as a failure of
                the backend.
        """
        ...

    def resizer(self, loaded: Sequence[Executable], target: Target) -> Resizer:
        """What makes other sizes of a network over the code and weights that are loaded."""
        ...


class Unavailable:
    """Stands for a compiler where a backend cannot compile: takes nothing, and says why."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = Reason(reason)

    def supports(self, op: Op) -> Reason:
        """The reason."""
        return self._reason

    def optimize(self, partition: Partition) -> Partition:
        """Nothing is placed here."""
        raise AssertionError(self._reason.text)

    def compile(self, partitions: Sequence[Partition]) -> Compiled:
        """The code of no partition."""
        assert not partitions, self._reason.text
        return Compiled(())

    def memory(self, partition: Partition) -> None:
        """No partition, no memory."""


class CompileAnew:
    """The resizer of a backend that keeps nothing from one size to another."""

    def __init__(self, backend: Backend, target: Target) -> None:
        self._backend, self._target = backend, target

    def resized(
        self, compiler: PartitionCompiler, partitions: Sequence[Partition], limits: Limits
    ) -> Sequence[tuple[Executable, Mapping[str, object]]]:
        """Compile and load."""
        compiled = compiler.compile(partitions)
        shared = compiled.shared.get(self._target, b"")
        return [
            (self._backend.load(part.codes[self._target], shared, limits), part.facts)
            for part in compiled.partitions
        ]
