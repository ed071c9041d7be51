"""A part of a network, from some tensors to others, as a network of its own.

x ─ a ─ b ─ c ─ y      cut from the result of a to that of c:      a' ─ b ─ c'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from circlet.errors import InputError
from circlet.ir import Graph, Model, Op, Tensor
from circlet.ir.regions import reachable

HANDLES = frozenset({"RESOURCE", "VARIANT"})
_SHOWN = 8


def cut(model: Model, starts: Sequence[Tensor], ends: Sequence[Tensor]) -> Model:
    """What computes `ends` from `starts`, in the main graph; its ops and tensors are the model's.

    Without `starts` it begins with the network's inputs, as far as it reads them. Graphs that its
    operators run come along; signatures and metadata, which speak of the whole network, do not.

    Raises:
        InputError: The cut is not closed: an end depends on more than the starts, or the part
            shares state with the rest; or a start leads to no end.
    """
    graph = model.main
    given = frozenset(starts or graph.inputs)
    taken = _between(graph, given, ends)
    read = {tensor for op in taken for tensor in op.inputs if tensor is not None}
    idle = [tensor.name for tensor in starts if tensor not in read]
    if not taken or idle:
        raise InputError(
            "nothing lies between the ends of the cut",
            where=", ".join(idle[:_SHOWN]) or ", ".join(t.name for t in ends[:_SHOWN]),
            why="no operator on the way to the outputs reads it" if idle else "no operator is left",
            fix="name an earlier --from, or a later --to",
        )
    ops = [op for op in graph.ops if op in taken]
    check_state(graph, [ops, [op for op in graph.ops if op not in taken]])
    inputs = [*starts] or [tensor for tensor in graph.inputs if tensor in read]
    return part_of(model, Graph(graph.name, inputs, [*ends], ops))


def part_of(model: Model, graph: Graph) -> Model:
    """A model of a graph over the tensors of another's main one, and of all that it runs."""
    intermediates = (tensor for op in graph.ops for tensor in op.intermediates)
    used = {*graph.used_tensors(), *intermediates}
    listed = [tensor for tensor in model.main.tensors if tensor in used]
    graph.tensors = list(dict.fromkeys([*listed, *graph.used_tensors(), *intermediates]))
    return Model(reachable(graph), model.description, source_format=model.source_format)


def check_state(graph: Graph, groups: Sequence[Sequence[Op]]) -> None:
    """See that what lives on from run to run is used by the operators of one group only.

    Raises:
        InputError: Two groups use one variable, or one hands the other a handle of some state.
    """
    group_of = {op: number for number, ops in enumerate(groups) for op in ops}
    users: dict[object, Op] = {}
    for op in graph.ops:
        for key in _state_of(op):
            first = users.setdefault(key, op)
            if group_of[first] != group_of[op]:
                raise InputError(
                    "the cut is not closed: it would share state with the rest of the network",
                    where=f"{first.name} ({first.label}) and {op.name} ({op.label})",
                    why="they use the same variable, which lives on from run to run",
                    fix="keep both on one side of the cut",
                )


def _state_of(op: Op) -> Iterable[object]:
    """What an op shares with others of the same state: variables, handles, names of handles."""
    for tensor in (*op.inputs, *op.outputs):
        if tensor is not None and (tensor.is_variable or tensor.dtype.name in HANDLES):
            yield tensor
    name = getattr(op.attrs, "shared_name", "")
    if name:
        yield op.kind, getattr(op.attrs, "container", ""), name


def _between(graph: Graph, starts: frozenset[Tensor], ends: Sequence[Tensor]) -> set[Op]:
    """The ops on the way from `starts` to `ends`, and those that only store what these compute."""
    producers, inputs = graph.producers(), frozenset(graph.inputs)
    taken: set[Op] = set()
    waiting = [tensor for tensor in ends if tensor not in starts]
    while waiting:
        tensor = waiting.pop()
        op = producers.get(tensor)
        if tensor in inputs or op is None:
            raise _open(graph, tensor, taken)
        if op in taken:
            continue
        taken.add(op)
        waiting += [t for t in op.inputs if t is not None and _is_wanted(t, starts, inputs)]
    known = {*starts, *(tensor for op in taken for tensor in op.outputs)}
    for op in graph.ops:
        if not op.outputs and any(tensor in known for tensor in op.inputs):
            taken.add(op)
    return taken


def _is_wanted(tensor: Tensor, starts: frozenset[Tensor], inputs: frozenset[Tensor]) -> bool:
    """Whether a tensor that a taken op reads must still be computed."""
    is_given = tensor in starts or tensor.is_constant
    return not is_given and (tensor in inputs or not tensor.is_variable)


def _open(graph: Graph, tensor: Tensor, taken: set[Op]) -> InputError:
    readers = [op for op in graph.ops if op in taken and tensor in op.inputs]
    if not readers:
        return InputError(
            "the cut has an end that no operator computes",
            where=tensor.name,
            why="it is an input of the network, or a constant",
            fix="name a tensor, or an operator, behind it",
        )
    return InputError(
        "the cut is not closed",
        where=tensor.name,
        why=f"{readers[0].name} ({readers[0].label}) reads it, which lies before the outputs",
        fix=f"add --from 'tensor:{tensor.name}', or start further towards the network's inputs",
    )
