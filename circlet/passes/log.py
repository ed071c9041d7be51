"""What passes did, in the names of the user's operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from circlet.escape import escaped
from circlet.ir import Graph, Op
from circlet.words import counted

State = dict[Op, tuple[object, ...]]


@dataclass(frozen=True)
class PassReport:
    """What one run of a pass did to the ops, each given as "KIND source-name".

    Attributes:
        name: The pass.
        removed, added, changed: Ops that went, that came, and whose operands or attributes differ.
        seconds: Wall time, without that of checks.
        round: Which run of the whole list it belongs to, from 1.
        rewrote: Whether the pass says that it changed something, if only tensors.
    """

    name: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]
    seconds: float
    round: int = 1
    rewrote: bool = False

    @property
    def did_something(self) -> bool:
        """Whether any op differs."""
        return bool(self.removed or self.added or self.changed)

    def __str__(self) -> str:
        parts = (("-", self.removed), ("+", self.added), ("~", self.changed))
        lines = [f"  {sign} {escaped(op)}" for sign, ops in parts for op in ops]
        return "\n".join(
            [f"{self.name}: {counted(len(lines), 'change')} in {self.seconds:.4f} s", *lines]
        )


@dataclass
class PassLog:
    """The reports of all passes that ran, in order.

    Attributes:
        settled: Whether the last run of the whole list changed nothing.
    """

    reports: list[PassReport] = field(default_factory=list)
    settled: bool = False

    @property
    def applied(self) -> tuple[str, ...]:
        """Names of the passes that ran."""
        return tuple(report.name for report in self.reports)

    def __str__(self) -> str:
        return "\n".join(str(report) for report in self.reports if report.did_something)


def state_of(graphs: Iterable[Graph]) -> State:
    """What of the ops a report compares."""
    ops = (op for graph in graphs for op in graph.ops)
    return {op: (op.kind, *op.inputs, None, *op.outputs, id(op.attrs), op.origin) for op in ops}


def report_of(
    name: str, before: State, after: State, seconds: float = 0.0, round: int = 1
) -> PassReport:
    """What happened to the ops between two states, of which one is the other if nothing did."""

    def lines(ops: Iterable[Op]) -> tuple[str, ...]:
        return tuple(f"{op.label} {op.name}" for op in ops)

    if after is before:
        return PassReport(name, (), (), (), seconds, round)
    return PassReport(
        name,
        removed=lines(op for op in before if op not in after),
        added=lines(op for op in after if op not in before),
        changed=lines(op for op in after if op in before and after[op] != before[op]),
        seconds=seconds,
        round=round,
        rewrote=True,
    )
