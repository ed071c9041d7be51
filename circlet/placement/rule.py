"""Placement by rule: every op goes to the first backend, in the caller's order, that takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from circlet.errors import PlacementError, UnsupportedOp, UnsupportedOpsError
from circlet.ir import Graph, Op
from circlet.ops import dtype_text
from circlet.placement.interface import Candidate, Reason, Supported

_NOTHING: Mapping[Op, Candidate] = {}


class Placed(NamedTuple):
    """One row of the placement table.

    Attributes:
        op: The op.
        backend: The backend that runs it.
        refused: Why each backend before it in the caller's order did not take it.
    """

    op: Op
    backend: str
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Without:
    """A backend that is not to be given some source operators.

    Attributes:
        refused: Their ids, and why.
    """

    backend: Candidate
    refused: Mapping[int, str]

    @property
    def name(self) -> str:
        """That of the backend."""
        return self.backend.name

    def supports(self, op: Op) -> Supported | Reason:
        """What the backend says of any other op."""
        reasons = (self.refused.get(source.id) for source in op.origin.sources)
        reason = next(filter(None, reasons), None)
        return self.backend.supports(op) if reason is None else Reason(reason)


def place(
    graph: Graph,
    backends: Sequence[Candidate],
    *,
    strict: bool = False,
    wanted: Mapping[Op, Candidate] = _NOTHING,
) -> list[Placed]:
    """The placement table of a graph.

    Args:
        wanted: Backends that some ops go to before the others are asked.

    Raises:
        UnsupportedOpsError: Ops that no backend takes, all in one report.
        PlacementError: `strict`, and an op did not go to the first backend, or to the wanted one.
    """
    table = [_place_op(op, _asked(backends, wanted.get(op))) for op in graph.ops]
    unplaced = [row for row in table if not row.backend]
    if unplaced:
        raise UnsupportedOpsError([_report(row) for row in unplaced])
    moved = [row for row in table if row.refused]
    if strict and moved:
        ops = [(row.op.name, row.op.label, row.refused[0][1]) for row in moved]
        raise PlacementError.moved(moved[0].refused[0][0], ops)
    return table


def _asked(backends: Sequence[Candidate], wanted: Candidate | None) -> Sequence[Candidate]:
    if wanted is None:
        return backends
    return [wanted, *(backend for backend in backends if backend.name != wanted.name)]


def _place_op(op: Op, backends: Sequence[Candidate]) -> Placed:
    refused: list[tuple[str, str]] = []
    for backend in backends:
        answer = backend.supports(op)
        if isinstance(answer, Supported):
            return Placed(op, backend.name, tuple(refused))
        refused.append((backend.name, answer.text))
    return Placed(op, "", tuple(refused))


def _report(row: Placed) -> UnsupportedOp:
    reasons = dict.fromkeys(reason for _, reason in row.refused)
    op = row.op
    return UnsupportedOp(op.name, op.label, op.version, dtype_text(op), "; ".join(reasons))
