"""Views between operators of another backend go to that backend: nothing is to be copied for them.

A view, such as RESHAPE, says anew which sizes elements in one row have. On a backend of its own its
operand would be brought there, and its result back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from circlet.ir import Graph, Op
from circlet.ops import find
from circlet.ops.view import whole_ranges
from circlet.placement.interface import Candidate, Supported
from circlet.placement.rule import Placed

_WHY = "a view of what {name} makes for operators of {name}, which would be copied twice"


def with_views_moved(
    graph: Graph,
    placed: Sequence[Placed],
    backends: Mapping[str, Candidate],
    fixed: Collection[Op] = (),
) -> list[Placed]:
    """The placement table, views moved to the backend of all that makes and reads them.

    Args:
        backends: By name.
        fixed: Ops that stay where they are, because a user placed them.
    """
    rows = {row.op: row for row in placed}
    producers, consumers = graph.producers(), graph.consumers()
    outputs = set(graph.outputs)
    wanted: dict[Op, str] = {}
    for op in graph.ops:
        source = _viewed(op)
        maker = None if source is None else producers.get(op.inputs[source])  # type: ignore[arg-type]
        if maker is not None and op not in fixed and op.outputs[0] not in outputs:
            wanted[op] = wanted.get(maker, rows[maker].backend)
    for op in reversed(graph.ops):
        if op not in wanted:
            continue
        name = wanted[op]
        readers = [reader for tensor in op.outputs for reader in consumers.get(tensor, ())]
        is_between = readers and all(rows[reader].backend == name for reader in readers)
        if not is_between or rows[op].backend == name or name not in backends:
            continue
        if isinstance(backends[name].supports(op), Supported):
            refused = (*rows[op].refused, (rows[op].backend, _WHY.format(name=name)))
            rows[op] = Placed(op, name, refused)
    return [rows[row.op] for row in placed]


def _viewed(op: Op) -> int | None:
    """The operand whose elements the op repeats, all and in order; None for other ops."""
    record = find(op.label)
    if record is None or record.view is None or len(op.outputs) != 1:
        return None
    view = record.view(op, 0)
    if view is None:
        return None
    operand = op.inputs[view.source]
    is_whole = operand is not None and view.ranges == whole_ranges(operand.shape)
    return view.source if is_whole else None
