"""Partitions of a network, and no more of them than its limits allow."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.errors import LimitError
from circlet.ir import Graph
from circlet.placement.interface import Candidate, Supported
from circlet.placement.rule import Placed
from circlet.plan.partition import Partition, partition


def partitioned(
    graph: Graph, placed: Sequence[Placed], last: Candidate, most: int
) -> tuple[list[Placed], list[Partition]]:
    """The partitions of a graph, and the placement table that they follow.

    Where backends would change more often than `most` times, the last backend runs all that comes
    then: each partition is compiled, loaded and started by itself.

    Raises:
        LimitError: The last backend does not take all of that.
    """
    rows = list(placed)
    parts = partition(graph, {row.op: row.backend for row in rows})
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
