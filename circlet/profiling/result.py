"""What a profile holds: plain data, a row for each source operator and one for each kernel call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class OperatorRow:
    """One operator of the user's file, and its part of the kernel calls that descend from it.

    Attributes:
        id, name, kind: The operator, as its file has it.
        us: Microseconds of a run.
        range_us: What the least and the most of its kernel calls add up to.
        share: Of the whole run.
        macs: Multiply-accumulates, by the operator's record, of one pass over it.
        gops: Two operations for each multiply-accumulate and second that its kernels made.
        data_bytes, weights_bytes: Activations that its kernels read and wrote, and weights read.
        gbs: Both of them for each second, in GB/s.
        output_bytes: Memory of its results, as the file has them.
        roof: The least time that the machine allows, as a share of the time taken; None where
            the machine's peaks are not known.
        bound: What sets that least time, "arithmetic" or "memory"; "" where it is not known.
        backend: Where it ran, "" where it needs no kernel.
        kernels: The C functions that computed it.
        fused_with: Names of the other source operators that its kernels compute.
        why: What its time goes to, in a sentence.
    """

    id: int
    name: str
    kind: str
    us: float
    range_us: tuple[float, float]
    share: float
    macs: int
    gops: float
    data_bytes: int
    weights_bytes: int
    gbs: float
    output_bytes: int
    roof: float | None
    bound: str
    backend: str
    kernels: tuple[str, ...]
    fused_with: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class CallRow:
    """One kernel call, or one operator that numpy ran.

    Attributes:
        partition, step: Its place in the plan; steps count within a partition.
        kernel: The C function and the constants that specialise it; "numpy" in numpy.
        kind: The final operator's kind.
        backend: Where it ran.
        sources: Ids of the source operators that it descends from.
        shares: The part of its time that each of them is given.
        start_us, us: When it began in the run that `Profile.operators` describes, and its time.
        range_us: The least and the most that it took in one of the runs that count.
        tasks: Pieces that threads share.
        macs, data_bytes, weights_bytes, gops, gbs, roof, bound: As those of `OperatorRow`.
        unit: The arithmetic: "fp32", "int8" or "int16".
        busy_us: On several threads what each of them worked on it, the calling one first, by some
            further runs; nothing where that is not told.
    """

    partition: int
    step: int
    kernel: str
    kind: str
    backend: str
    sources: tuple[int, ...]
    shares: tuple[float, ...]
    start_us: float
    us: float
    range_us: tuple[float, float]
    tasks: int
    macs: int
    data_bytes: int
    weights_bytes: int
    gops: float
    gbs: float
    roof: float | None
    bound: str
    unit: str
    busy_us: tuple[float, ...] = ()


@dataclass(frozen=True)
class TransferRow:
    """A value that was copied to, or from, memory of a backend's own.

    Attributes:
        tensor: The name of the value.
        partition: The partition before or after which it was copied.
        backend: That of the partition.
        source, target: The kinds of memory.
        bytes: Its size; None where it depends on the data of a run.
        us: Microseconds of a run.
    """

    tensor: str
    partition: int
    backend: str
    source: str
    target: str
    bytes: int | None
    us: float

    @property
    def title(self) -> str:
        """What is copied from where to where."""
        return f"copy of {self.tensor} from {self.source} to {self.target} memory"


@dataclass(frozen=True)
class Profile:
    """Where the time of a network's runs went.

    All times are means over the same runs, the middle half of all by their time, so that the
    operators and `between_us` add up to `whole_us`.

    Attributes:
        model: What ran.
        threads: Threads of a run.
        runs: How many runs were timed.
        whole_us: One run, with every kernel call timed.
        plain_us: One run with nothing timed; these took turns with the timed ones.
        overhead: What timing kernels added to a run, as a share, by the fastest of both; where few
            runs were timed, noise may make it negative.
        between_us: What of the whole lies between kernels: calls, hand-overs, Python.
        range_us: The fastest and the slowest run of the middle half.
        resident_bytes: Packed constants and arenas: what a run goes through.
        level, target, precision: What the network was compiled for.
        peaks: The machine's, as `circlet.backends.profiled.Peaks` has them; None if not measured.
        operators: Every operator of the file, in its order.
        calls: Every kernel call in the order of the run.
        transfers: Every copy to and from memory of backends' own; those of a backend that copies
            within its runs are part of its calls.
    """

    model: str
    threads: int
    runs: int
    whole_us: float
    plain_us: float
    overhead: float
    between_us: float
    range_us: tuple[float, float]
    resident_bytes: int
    level: str
    target: str
    precision: str
    peaks: Mapping[str, object] | None
    operators: tuple[OperatorRow, ...]
    calls: tuple[CallRow, ...]
    warnings: tuple[str, ...] = field(default=())
    transfers: tuple[TransferRow, ...] = ()

    @property
    def spread(self) -> float:
        """The slowest run of the middle half over its fastest, less 1."""
        least, most = self.range_us
        return most / least - 1 if least else 0.0

    def slowest(self) -> list[OperatorRow]:
        """The operators, those that took longest first."""
        return sorted(self.operators, key=lambda row: (-row.us, row.id))

    def as_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        return asdict(self)
