"""The search for placements as data: what is to be placed, what it costs, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from circlet.ir import Op
from circlet.struct import Struct

NO_PLACEMENT: Mapping[str, str] = {}


class Estimate(Struct):
    """The predicted time of one operator.

    Attributes:
        ns: What is expected, in nanoseconds.
        low, high: The interval that holds it with a probability of nine in ten.
        measured: Whether just this was measured, rather than predicted from others.
    """

    ns: float
    low: float
    high: float
    measured: bool = False


class Costs(Protocol):
    """What operators, transfers and partitions cost on this machine."""

    def operator_ns(self, op: Op, backend: str, threads: int) -> Estimate:
        """The time of an op.

        Raises:
            PlacementError: The backend does not take the op.
        """
        ...

    def operator_bytes(self, op: Op, backend: str, threads: int) -> int:
        """What an op holds in memory beyond activations: packed weights, scratch memory."""
        ...

    def transfer_ns(self, size: int, writer: str, reader: str) -> float:
        """The time of handing `size` bytes from one backend to another."""
        ...

    def partition_ns(self, backend: str) -> float:
        """What one partition more of a backend costs a run."""
        ...


class Setting(Struct):
    """What a configuration chooses for the network as a whole.

    Attributes:
        threads: Threads of a run.
        level: Optimisation level: "Os" takes less memory, and some time for it.
        executor: In which order partitions run.
    """

    threads: int = 1
    level: str = "O2"
    executor: str = "linear"


class Configuration(Struct):
    """One point of a search: a placement, and the options of the session that runs it.

    Attributes:
        placement: A backend for each operator of the user's file, by name.
        setting: Threads, level and the like.
    """

    placement: Mapping[str, str] = NO_PLACEMENT
    setting: Setting = Setting()

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.placement.items())), self.setting))

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends in use, sorted."""
        return tuple(sorted(set(self.placement.values())))

    def as_dict(self) -> dict[str, object]:
        """The configuration as plain data."""
        return {"placement": dict(self.placement), "setting": self.setting._asdict()}


class Measurement(Struct):
    """What running a configuration showed.

    Attributes:
        time_ns: The median time of a run; infinite where it failed.
        low_ns, high_ns: A 95 % interval of the median.
        memory_bytes: What the configuration needs at its peak; infinite where it failed.
        runs: How many runs were timed.
        difference: By how much outputs differ at most from the reference's, in units of what is
            tolerated: more than 1 is a failure.
        error: Why it is no answer, as text; "" where it is one.
        code: The code of the error, such as "E-BACKEND"; "" where there is none.
        rss_bytes: What a process of its own held while it ran; 0 where that was not measured.
        partitions: How many partitions ran.
    """

    time_ns: float
    memory_bytes: float
    low_ns: float = 0.0
    high_ns: float = 0.0
    runs: int = 0
    difference: float = 0.0
    error: str = ""
    code: str = ""
    rss_bytes: int = 0
    partitions: int = 0

    @property
    def is_valid(self) -> bool:
        """Whether the configuration ran, and gave the right answer."""
        return not self.error

    @property
    def point(self) -> tuple[float, float]:
        """Time in nanoseconds and memory in bytes."""
        return self.time_ns, self.memory_bytes


class Group(Struct):
    """Operators that are placed together, because they share operators of the user's file.

    Attributes:
        sources: Names of the operators of the user's file.
        kind: The kind of the op that takes longest.
        size_bytes: All its inputs and outputs.
    """

    sources: tuple[str, ...]
    kind: str = ""
    size_bytes: int = 0


class Crossing(Struct):
    """A value that groups hand on.

    Attributes:
        writer: The group that computes it, -1 for an input of the network.
        readers: Other groups that read it, in order.
        size_bytes: Its size.
    """

    writer: int
    readers: tuple[int, ...]
    size_bytes: int


class Step(Struct):
    """One op of the optimised network.

    Attributes:
        group: The group that it belongs to.
        after: Steps that run before it.
    """

    group: int
    after: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Problem:
    """A network to be placed at one setting.

    Groups and steps stand in an order in which they may run. With G groups, B backends, V values:

    Attributes:
        groups, backends: What is placed, and where.
        setting: Threads, level and the like.
        time_ns: (G, B) times, infinite where the backend does not take the group.
        held_bytes: (G, B) what the group holds in memory beyond activations.
        steps: The ops of the groups.
        values: What groups hand on.
        transfer_ns: (V, B, B) the time of handing a value from one backend to another.
        partition_ns: (B,) what one partition of the backend costs a run.
        fixed_bytes: (B,) what a backend holds as soon as it is used at all.
        base_bytes: What any placement needs: activations at their peak, inputs and outputs.
        reasons: Why a backend does not take a group, by the numbers of both.
        measured: (G, B) whether times were measured rather than predicted.
    """

    groups: tuple[Group, ...]
    backends: tuple[str, ...]
    setting: Setting
    time_ns: np.ndarray
    held_bytes: np.ndarray
    steps: tuple[Step, ...]
    values: tuple[Crossing, ...]
    transfer_ns: np.ndarray
    partition_ns: np.ndarray
    fixed_bytes: np.ndarray
    base_bytes: float = 0.0
    reasons: Mapping[tuple[int, int], str] = field(default_factory=dict)
    measured: np.ndarray | None = None

    @property
    def allowed(self) -> np.ndarray:
        """(G, B) which backend takes which group."""
        return np.isfinite(self.time_ns)

    def placement(self, choice: np.ndarray) -> dict[str, str]:
        """A backend for each source operator, from (G,) numbers of backends."""
        pairs = zip(self.groups, choice, strict=True)
        return {s: self.backends[int(b)] for group, b in pairs for s in group.sources}

    def configuration(self, choice: np.ndarray) -> Configuration:
        """The placement of (G,) numbers of backends with the setting of the problem."""
        return Configuration(self.placement(choice), self.setting)

    def choice(self, placement: Mapping[str, str]) -> np.ndarray:
        """(G,) numbers of backends of a placement; raises KeyError where it lacks a group's."""
        numbers = {name: number for number, name in enumerate(self.backends)}
        return np.array([numbers[placement[group.sources[0]]] for group in self.groups], np.int64)
