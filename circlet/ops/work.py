"""The work of operators and of whole graphs, in elementary operations, as limits count it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from circlet.errors import CircletError, LimitError
from circlet.ir import Graph, Op, Tensor
from circlet.ir.regions import reachable
from circlet.ops.lasting import lasting
from circlet.ops.opdef import Arrays, cost_of, find, get

FAILURES = (ValueError, LookupError, TypeError, ArithmeticError)
"""What records raise for arrays that their rules have not seen."""

_SHOWN = 3
_WORK: WeakKeyDictionary[Op, tuple[int, bool]] = WeakKeyDictionary()  # and whether sizes are open


def work_of(op: Op) -> int:
    """What an op does by its record, without the graphs that it runs."""
    return cost_of(op).work


def main_op(ops: Sequence[Op]) -> Op:
    """The op that does most: what several ops are as one operator of a file."""
    costs = [cost_of(op) for op in ops]
    return max(zip(costs, ops, strict=True), key=lambda row: (row[0].computing, row[0].bytes))[1]


def work_in_place(op: Op) -> int:
    """What an op does that updates operands where they live: the rest of them stays as it is."""
    record = find(op.label)
    pairs = () if record is None else record.continues
    kept = [(op.outputs[result], op.inputs[source]) for result, source in pairs]
    return max(0, work_of(op) - sum(t.size_bytes for pair in kept for t in pair if t is not None))


def work_at(op: Op, arrays: Arrays) -> int:
    """What an op does to these arrays, whose sizes may be others than it states."""
    known = _WORK.get(op)
    if known is None:
        known = _WORK[op] = (work_of(op), any(None in t.shape for t in _tensors(op)))
    work, is_open = known
    pairs = zip(op.inputs, arrays, strict=True)
    if not is_open and all(t is None or a is None or t.shape == a.shape for t, a in pairs):
        return work
    given = [
        None if t is None or a is None else replace(t, shape=a.shape, default_shape=None, data=a)
        for t, a in zip(op.inputs, arrays, strict=True)
    ]
    asked = replace(op, inputs=given)
    try:
        sizes = get(op).infer(asked)
    except (CircletError, *FAILURES):
        return work  # evaluating it says better what is wrong
    made = [replace(t, shape=s.shape) for t, s in zip(op.outputs, sizes, strict=False)]
    return work_of(replace(asked, outputs=made))


def _tensors(op: Op) -> list[Tensor]:
    return [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]


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

    What depends on no input is done once for all runs, and may be as much.

    Raises:
        LimitError: It does; the message names the operators that do most.
    """
    kept = lasting(graph.ops)
    once = sum(work_of(op) for op in graph.ops if kept.intersection(op.outputs))
    total = max(work_of_graph(graph) - once, once)
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
