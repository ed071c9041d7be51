"""What a whole network costs, in four numbers, to see what passes change."""

from __future__ import annotations

from typing import NamedTuple

from circlet.ir import Graph, Model
from circlet.ir.file_operators import file_operators
from circlet.ops.opdef import cost_of


class Totals(NamedTuple):
    """Sums over all graphs of a network, each counted once however often it is run.

    Attributes:
        operators: How many there are.
        macs: Multiply-accumulates.
        bytes_moved: Bytes of all operands and results.
        constant_bytes: Bytes of the constants that are used; shared storage counts once.
    """

    operators: int
    macs: int
    bytes_moved: int
    constant_bytes: int


def totals(subject: Model | Graph) -> Totals:
    """The totals of a network by the records of its operators; unknown sizes are the file's."""
    graphs = subject.graphs if isinstance(subject, Model) else [subject]
    costs = [cost_of(op) for graph in graphs for op in graph.ops]
    macs, moved = sum(cost.macs for cost in costs), sum(cost.bytes for cost in costs)
    return Totals(len(costs), macs, moved, _constant_bytes(graphs))


def file_totals(model: Model) -> Totals:
    """The totals of a network as it was read, with the operators that its file has."""
    return totals(model)._replace(
        operators=sum(len(file_operators(graph.ops)) for graph in model.graphs)
    )


def _constant_bytes(graphs: list[Graph]) -> int:
    data = (tensor.data for graph in graphs for tensor in graph.constants())
    places = {(a.ctypes.data, a.nbytes): a.nbytes for a in data if a is not None}
    return sum(places.values())
