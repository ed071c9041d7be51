"""What a report says of a network, as plain data; its JSON is what the page draws."""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = 1
"""Version of the data in a report's file; another one is not read."""


@dataclass(frozen=True)
class TensorItem:
    """A tensor of a graph.

    Attributes:
        shape: Its sizes, None for those that are known in a run only.
        role: input, output, constant, variable or computed.
        quantisation: Scale and zero point in words, "" where there are none.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    size_bytes: int
    role: str
    quantisation: str = ""


@dataclass(frozen=True)
class OperatorItem:
    """An operator of a graph.

    Attributes:
        name: The user's names of what it descends from.
        path: The groups that it is shown in, the outermost first.
        sources: Ids of the source operators that it descends from.
        inputs, outputs: Positions of tensors; -1 for an input that is left out.
        attributes: In words, by name.
        macs, operations, bytes: What its record says that one run costs.
        us: Microseconds of one run, None where it was not measured.
        alive_bytes: Most bytes of the arena that are in use while it runs.
        backend: What runs it, "" for operators of the file.
        lowering: How the backend does it.
        steps: Positions of its kernel calls among those of its partition.
        partition: The number of its partition, -1 for operators of the file.
        roof: The least time that the machine allows as a share of the time that it takes.
        bound: What sets that least time: "arithmetic", "memory", or "" where it is not known.
        reason: Why it takes its time, in a sentence, "" where nothing is known.
    """

    kind: str
    name: str
    path: tuple[str, ...]
    sources: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, str]
    macs: int
    operations: int
    bytes: int
    us: float | None = None
    alive_bytes: int | None = None
    backend: str = ""
    lowering: str = ""
    steps: tuple[int, ...] = ()
    partition: int = -1
    roof: float | None = None
    bound: str = ""
    reason: str = ""


@dataclass(frozen=True)
class GraphItem:
    """Operators in order over tensors; `inputs` and `outputs` are positions of tensors."""

    operators: tuple[OperatorItem, ...]
    tensors: tuple[TensorItem, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class StepItem:
    """A kernel call.

    Attributes:
        operator: The position of its operator in the optimised graph.
        code: The position of its C in the report's `codes`, -1 for none.
        us: Microseconds of one run, None where it was not measured by itself.
    """

    operator: int
    kernel: str
    tasks: int
    code: int
    us: float | None = None


@dataclass(frozen=True)
class BlockItem:
    """A buffer in an arena: bytes from `offset` on, in use from step `first` to step `last`."""

    name: str
    offset: int
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class PartitionItem:
    """Operators of one backend that run together; there are no steps where it plans none."""

    backend: str
    operators: int
    steps: tuple[StepItem, ...] = ()
    blocks: tuple[BlockItem, ...] = ()
    arena_bytes: int = 0
    lower_bound_bytes: int = 0
    constants_bytes: int = 0
    planner: str = ""


@dataclass(frozen=True)
class PlaceItem:
    """An operator as it was placed: its backend, and (backend, reason) of those that refused it."""

    kind: str
    name: str
    backend: str
    refused: tuple[tuple[str, str], ...]
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Roof:
    """A line of the roofline: arithmetic at most so fast, or memory at most so fast."""

    name: str
    gops: float | None = None
    gbs: float | None = None


@dataclass(frozen=True)
class Timing:
    """How it was measured: runs, threads, what they ran on, and the microseconds of a whole run.

    Times are means of the middle half of the runs.
    """

    runs: int
    threads: int
    run_us: float
    inputs: str


@dataclass(frozen=True)
class FrontPointItem:
    """A placement that was measured.

    Attributes:
        us: Microseconds of one run.
        low_us, high_us: A 95 % interval of it, None where it was not measured.
        predicted_us: What the model of costs said, None where it was not asked.
        bytes: What it needs of memory.
        single: The backend that has all operators which it takes, or "".
        is_front: Whether no other beats it in both time and memory.
        partitions: How many ran, 0 where that is not known.
        backends: For each operator of the file the number of its backend, -1 for none.
    """

    us: float
    low_us: float | None
    high_us: float | None
    predicted_us: float | None
    bytes: int
    threads: int
    level: str
    executor: str
    single: str
    is_front: bool
    partitions: int
    backends: tuple[int, ...]


@dataclass(frozen=True)
class FrontItem:
    """Placements of the network, those that no other beats first, by rising time.

    Attributes:
        space: How many placements there are, a whole number of any size.
        failed: How many that were measured did not run, or answered wrongly.
        hypervolume: In nanoseconds and bytes, from the reference point.
    """

    backends: tuple[str, ...]
    points: tuple[FrontPointItem, ...]
    strategy: str
    mode: str
    space: str
    evaluations: int
    failed: int
    hypervolume: float
    reference_us: float
    reference_bytes: float


@dataclass(frozen=True)
class Report:
    """Everything that a page shows of one network.

    Attributes:
        title: The file's name.
        source, optimised: The graph of the file, and what runs; None where it cannot be compiled.
        codes: Generated C that steps refer to.
        headers: The files, by name, that it includes.
        weights_bytes: Constants in the file.
        unsupported: Kind, name and reason of operators that nothing runs.
        front: Placements by time and memory, where they were searched.
    """

    title: str
    format: str
    circlet: str
    machine: str
    level: str
    backends: tuple[str, ...]
    source: GraphItem
    weights_bytes: int
    optimised: GraphItem | None = None
    partitions: tuple[PartitionItem, ...] = ()
    placement: tuple[PlaceItem, ...] = ()
    codes: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    roofs: tuple[Roof, ...] = ()
    timing: Timing | None = None
    unsupported: tuple[tuple[str, str, str], ...] = ()
    front: FrontItem | None = None
    schema: int = SCHEMA
