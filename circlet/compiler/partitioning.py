"""Partitions of a network, and no more of them than its limits allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from circlet.errors import LimitError
from circlet.ir import Graph, Op
from circlet.placement.interface import Candidate, Supported
from circlet.placement.rule import Placed
from circlet.plan.branches import branches, levels, longest_path
from circlet.plan.partition import Partition, partition


def partitioned(
    graph: Graph,
    placed: Sequence[Placed],
    last: Candidate,
    most: int,
    *,
    side_by_side: bool = False,
) -> tuple[list[Placed], list[Partition]]:
    """The partitions of a graph, and the placement table that they follow.

    Those that are to run side by side are cut where that shortens the longest path through them.

    Where backends would change more often than `most` times, the last backend runs all that comes
    then: each partition is compiled, loaded and started by itself.

    Raises:
        LimitError: The last backend does not take all of that.
    """
    rows = list(placed)
    backend_of = {row.op: row.backend for row in rows}
    parts = partition(graph, backend_of)
    if len(parts) <= most and side_by_side:
        ways = (parts, *_cut_apart(graph, backend_of))
        return rows, min((way for way in ways if len(way) <= most), key=longest_path)
    if len(parts) <= most:
        return rows, parts
    late = {op for part in parts[most:] for op in part.ops}
    why = f"more than {most} parts would run in turn: raise `partitions` of its limits"
    moved = [row for row in rows if row.op in late and row.backend != last.name]
    stuck = next((r.op for r in moved if not isinstance(last.supports(r.op), Supported)), None)
    if stuck is not None:
        raise LimitError(
            "the network changes backends too often",
            where=stuck.name,
            why=f"{len(parts)} parts would run in turn, the limit is {most}",
            fix="raise `partitions` of circlet.limits.Limits, or give other backends",
        )
    new = {row.op: Placed(row.op, last.name, (*row.refused, (row.backend, why))) for row in moved}
    rows = [new.get(row.op, row) for row in rows]
    return rows, partition(graph, {row.op: row.backend for row in rows})


def _cut_apart(graph: Graph, backend_of: Mapping[Op, str]) -> Iterator[list[Partition]]:
    """The graph in partitions that wait for less than those of as few as possible."""
    branch, level = branches(graph), levels(graph, backend_of)
    if branch:
        yield partition(graph, backend_of, branch)
    if any(level.values()):
        yield partition(graph, backend_of, {op: (level[op], branch.get(op, 0)) for op in graph.ops})
