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
from circlet.ir.regions import most_copies, ops_inside, unfolded_ops
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.bounded import TURNS, TurnsAttrs
from circlet.ops.state import variables
from circlet.passes import Rewriter
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
    loops = [op for op in graph.ops if op.kind == _KIND] if turns else []
    if not loops or variables(graph):
        return 0
    counts = unfolded_ops(graph)
    most = most_copies(sum(len(part.ops) for part in counts))
    few = (op for op in loops if ops_inside(op, counts) <= most)
    found = [op for op in few if _holds_such(op, table)]
    if not found:
        return 0
    given = {_with_room(op, table, turns): op for op in found}
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


def _holds_such(op: Op, table: SizeTable) -> bool:
    """Whether an op is a loop that may outgrow its room, or loops run one."""
    if op.kind != _KIND:
        return False
    inside = (inner for region in op.regions for inner in region.ops)
    return _may_outgrow(op, table) or any(_holds_such(inner, table) for inner in inside)


def _helps(counted: Op, plain: Op, candidates: Sequence[Candidate]) -> bool:
    """Whether a backend takes a loop that counts turns, and none of those before it the loop."""
    for candidate in candidates:
        if isinstance(candidate.supports(plain), Supported):
            return False
        if isinstance(candidate.supports(counted), Supported):
            return True
    return False


def _exchange(graph: Graph, ops: Mapping[Op, Op]) -> None:
    rewriter = Rewriter(graph)
    for old, new in ops.items():
        rewriter.replace([old], new)
    rewriter.finish()


def _with_room(op: Op, table: SizeTable, turns: int) -> Op:
    """A loop that has room for so many turns, where it needs some, and loops within it as well."""
    regions = []
    for region in op.regions:
        found = {inner for inner in region.ops if _holds_such(inner, table)}
        ops = [_with_room(each, table, turns) if each in found else each for each in region.ops]
        regions.append(copy_of_graph(Graph(region.name, region.inputs, region.outputs, ops)))
    made = replace(op, regions=regions)
    return _counted(made, turns) if _may_outgrow(op, table) else made


def _counted(op: Op, turns: int) -> Op:
    """A loop that counts its turns."""
    condition, body = op.regions
    number, inner = (Tensor(f"{op.name} (turns)", DType.INT64, ()) for _ in op.regions)
    flag = condition.outputs[0]
    goes_on = flag.like(f"{op.name} (goes on)")
    limit = Op(TURNS, [flag, number], [goes_on], TurnsAttrs(turns), op.origin)
    after, one = inner.like(), constant("one", np.array(1, np.int64))
    step = Op("ADD", [inner, one], [after], AddAttrs(), op.origin)
    regions = [
        Graph(condition.name, [*condition.inputs, number], [goes_on], [*condition.ops, limit]),
        Graph(body.name, [*body.inputs, inner], [*body.outputs, after], [*body.ops, step]),
    ]
    for graph in regions:
        graph.tensors = list(graph.used_tensors())
    inputs = [*op.inputs, constant("zero", np.array(0, np.int64))]
    return replace(op, inputs=inputs, outputs=[*op.outputs, after.like()], regions=regions)
