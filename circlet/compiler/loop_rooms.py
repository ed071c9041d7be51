"""Room for so many turns in loops of which nothing bounds the number, where a backend asks for it.

Before: `WHILE condition, body`. After: a WHILE that counts its turns, whose condition ends the run
with an error of its own where there are more than there is room for. Whoever runs the network plans
it anew then, with more room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ir.copy import copy_of_graph
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.bounded import TURNS, TurnsAttrs
from circlet.ops.state import variables
from circlet.placement.interface import Candidate, Supported
from circlet.plan.size_rules import settle_sizes
from circlet.plan.sizes import SizeTable

_KIND = "WHILE"
_MOST_PLANNED = 1024  # turns that room is made for ahead
_ROUNDS = 4


def give_room(graph: Graph, table: SizeTable, turns: int, candidates: Sequence[Candidate]) -> int:
    """Have loops of a graph need room for no more turns than these, where that helps a backend.

    A network with state is left as it is: a run that ends midway cannot be run again.

    Returns for how many turns there is room in loops that may take more; 0 where there are none.
    """
    found = [op for op in graph.ops if _may_outgrow(op, table)] if turns else []
    if not found or variables(graph):
        return 0
    given = {_counted(op, turns): op for op in found}
    _exchange(graph, {old: new for new, old in given.items()})
    for number in range(_ROUNDS):
        table.forget()
        settle_sizes(graph, table)
        rest = {new: old for new, old in given.items() if not _helps(new, old, candidates)}
        if not rest:
            break
        if number == _ROUNDS - 2:
            rest = given  # what remains depends on them
        _exchange(graph, rest)
        given = {new: old for new, old in given.items() if new not in rest}
    return turns if given else 0


def _may_outgrow(op: Op, table: SizeTable) -> bool:
    """Whether nothing bounds how far a loop's variables grow, or nothing but very many turns."""
    if op.kind != _KIND:
        return False
    sizes = table.loops.get(op.regions[1])
    if sizes is not None and sizes.changing:
        return sizes.turns is not None and sizes.turns > _MOST_PLANNED
    return any(table.of(tensor) is None for tensor in op.outputs)


def _helps(counted: Op, plain: Op, candidates: Sequence[Candidate]) -> bool:
    """Whether a backend takes a loop that counts turns, and none of those before it the loop."""
    for candidate in candidates:
        if isinstance(candidate.supports(plain), Supported):
            return False
        if isinstance(candidate.supports(counted), Supported):
            return True
    return False


def _exchange(graph: Graph, ops: Mapping[Op, Op]) -> None:
    graph.ops[:] = [ops.get(op, op) for op in graph.ops]


def _counted(op: Op, turns: int) -> Op:
    """A loop that counts its turns, and those within it likewise."""
    condition, body = map(copy_of_graph, op.regions)
    for graph in (condition, body):
        _exchange(graph, {inner: _counted(inner, turns) for inner in graph.ops if _grows(inner)})
        graph.inputs.append(Tensor(f"{op.name} (turns)", DType.INT64, ()))
    flag, number = condition.outputs[0], condition.inputs[-1]
    goes_on = flag.like(f"{op.name} (goes on)")
    attrs = TurnsAttrs(turns)
    condition.ops.append(Op(TURNS, [flag, number], [goes_on], attrs, op.origin))
    condition.outputs[0] = goes_on
    after, one = number.like(), constant("one", np.array(1, np.int64))
    body.ops.append(Op("ADD", [body.inputs[-1], one], [after], AddAttrs(), op.origin))
    body.outputs.append(after)
    for graph in (condition, body):
        graph.tensors = list(graph.used_tensors())
    zero, last = constant("zero", np.array(0, np.int64)), number.like()
    return replace(
        op, inputs=[*op.inputs, zero], outputs=[*op.outputs, last], regions=[condition, body]
    )


def _grows(op: Op) -> bool:
    return op.kind == _KIND and any(None in tensor.shape for tensor in op.outputs)
