"""Remove ops that give back their input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from circlet.ir import Graph, Op
from circlet.ops.operands import known_ints
from circlet.ops.requantize import activation_of
from circlet.passes.match import same_meaning, same_sizes
from circlet.passes.rewriter import Rewriter


def _always(op: Op) -> bool:
    return True


def _pads_nothing(op: Op) -> bool:
    amounts = known_ints(op.input(1))
    return amounts is not None and not any(amounts)


def _keeps_order(op: Op) -> bool:
    order = known_ints(op.input(1))
    return order is not None and order == tuple(range(len(order)))


def _repeats_once(op: Op) -> bool:
    times = known_ints(op.input(1))
    return times is not None and all(count == 1 for count in times)


def _joins_one(op: Op) -> bool:
    plain = activation_of(op) == "NONE"
    return len(op.inputs) == 1 and plain


_IDENTITY: dict[str, Callable[[Op], bool]] = {
    "ADD_N": _joins_one,
    "BROADCAST_TO": _always,
    "CAST": _always,
    "CONCATENATION": _joins_one,
    "EXPAND_DIMS": _always,
    "MIRROR_PAD": _pads_nothing,
    "PAD": _pads_nothing,
    "PADV2": _pads_nothing,
    "QUANTIZE": _always,
    "RESHAPE": _always,
    "SLICE": _always,
    "SQUEEZE": _always,
    "TILE": _repeats_once,
    "TRANSPOSE": _keeps_order,
}


@dataclass(frozen=True)
class RemoveIdentity:
    """Drop ops whose output equals their first input: same type, sizes, meaning and elements.

    Before: `x[1,4] -> RESHAPE [1,4] -> RELU`. After: `x[1,4] -> RELU`. The op's origin goes to
    the op that writes x, or to the readers where x is an input or a constant.
    """

    name = "remove-identity"

    def run(self, graph: Graph) -> bool:
        """Drop each identity that is not bound between a graph input and a graph output."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            source = op.input(0)
            if source is not None and _is_identity(op):
                rewriter.bypass(op, source)
        return rewriter.finish()


def _is_identity(op: Op) -> bool:
    source, holds = op.input(0), _IDENTITY.get(op.kind)
    if source is None or holds is None or len(op.outputs) != 1:
        return False
    result = op.outputs[0]
    return same_meaning(source, result) and same_sizes(source, result) and holds(op)
