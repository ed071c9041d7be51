"""The work of operators and of whole graphs, in elementary operations, as limits count it."""

from __future__ import annotations

from circlet.errors import LimitError
from circlet.ir import Graph, Op
from circlet.ir.regions import reachable
from circlet.ops.opdef import find, moves_bytes

_SHOWN = 3


def work_of(op: Op) -> int:
    """What an op does by its record, without the graphs that it runs."""
    record = find(op.label)
    return (moves_bytes(op) if record is None else record.cost(op)).work


def work_of_graph(graph: Graph) -> int:
    """What the ops of a graph do, and the graphs that they run: loops turn once.

    However often a graph is run, it is looked at once.
    """
    done: dict[Graph, int] = {}
    waiting = [graph]
    while waiting:
        current = waiting[-1]
        inner = [region for op in current.ops for region in op.regions if region not in done]
        if inner:
            waiting += dict.fromkeys(inner)
            continue
        waiting.pop()
        if current not in done:
            done[current] = sum(
                work_of(op) + sum(done[region] for region in op.regions) for op in current.ops
            )
    return done[graph]


def check_work(graph: Graph, allowed: int) -> None:
    """See that one run does not more than is allowed, even if no loop turns twice.

    Raises:
        LimitError: It does; the message names the operators that do most.
    """
    total = work_of_graph(graph)
    if total <= allowed:
        return
    ops = [op for part in reachable(graph) for op in part.ops]
    most = sorted(ops, key=work_of, reverse=True)[:_SHOWN]
    raise LimitError(
        "the network has more work to do than allowed",
        where=", ".join(f"{op.name} ({op.label})" for op in most),
        why=f"{total} operations a run, the limit is {allowed} for a file of its size; "
        f"{most[0].name} does {work_of(most[0])}",
        fix="raise `run_work` of circlet.limits.Limits if this is meant",
    )
