"""Operators and tensors of a network as users name them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from circlet.errors import InputError
from circlet.ir import Graph, Op, Tensor
from circlet.ir.file_operators import file_operators

_SHOWN = 8
_SIMILAR = 3
_NUMBER = re.compile(r"#([0-9]{1,9})")


def starts_named(graph: Graph, names: Sequence[str]) -> list[Tensor]:
    """The tensors that a part of a graph starts from; none where nothing is named.

    An operator stands for what it reads, constants and variables left out. A name is that of a
    source operator where there is one, and stands for all operators that descend from it, else of a
    tensor; `op:NAME` and `tensor:NAME` say which, and `#N` is operator N of the file, counted from
    0.

    Raises:
        InputError: Nothing has a name, or several have.
    """
    found: list[Tensor] = []
    for name in names:
        place = _place(graph, name)
        found += [place] if isinstance(place, Tensor) else _read_by(graph, place)
    return list(dict.fromkeys(found))


def ends_named(graph: Graph, names: Sequence[str]) -> list[Tensor]:
    """The tensors that a part of a graph ends in; the graph's outputs where none is named.

    An operator stands for its results; names and errors are those of `starts_named`.
    """
    found: list[Tensor] = []
    for name in names:
        place = _place(graph, name)
        found += [place] if isinstance(place, Tensor) else _results_of(graph, place)
    return list(dict.fromkeys(found)) if names else list(graph.outputs)


def _read_by(graph: Graph, ops: Sequence[Op]) -> list[Tensor]:
    made, given = {tensor for op in ops for tensor in op.outputs}, frozenset(graph.inputs)
    found = [
        tensor
        for tensor in (tensor for op in ops for tensor in op.inputs)
        if tensor is not None
        and not tensor.is_constant
        and tensor not in made
        and (tensor in given or not tensor.is_variable)
    ]
    if not found:
        raise InputError(
            "an operator reads nothing that a part could be given",
            where=f"{ops[0].name} ({ops[0].label})",
            why="all its operands are constants or variables",
            fix="start from an operator behind it, or from the network's inputs",
        )
    return found


def _results_of(graph: Graph, ops: Sequence[Op]) -> list[Tensor]:
    """What ops that belong together make for others."""
    inside, outputs = set(ops), frozenset(graph.outputs)
    read = {t for op in graph.ops if op not in inside for t in op.inputs if t is not None}
    made = [tensor for op in ops for tensor in op.outputs]
    return [t for t in made if t in read or t in outputs] or [*ops[-1].outputs]


def _place(graph: Graph, text: str) -> Sequence[Op] | Tensor:
    number, operators = _NUMBER.fullmatch(text), file_operators(graph.ops)
    if number is not None and int(number[1]) < len(operators):
        return operators[int(number[1])]
    kind, mark, name = text.partition(":")
    is_op, is_tensor = (mark and kind == "op"), (mark and kind == "tensor")
    wanted = name if is_op or is_tensor else text
    ops = [] if is_tensor else _ops_named(graph, wanted)
    if ops:
        if len({op.origin for op in ops}) == 1:
            return ops
        raise _ambiguous(graph, text, ops)
    tensors = [] if is_op else [t for t in graph.used_tensors() if t.name == wanted]
    if len(tensors) == 1:
        return tensors[0]
    if not tensors:
        raise _unknown(graph, wanted)
    raise _ambiguous(graph, text, [op for op in graph.ops if {*tensors} & {*op.outputs}])


def _ops_named(graph: Graph, name: str) -> list[Op]:
    """The ops of one source operator; those into which it was fused where it has none alone."""
    own = [op for op in graph.ops if op.name == name]
    return own or [op for op in graph.ops if name in [s.name for s in op.origin.sources]]


def _ambiguous(graph: Graph, text: str, ops: Sequence[Op]) -> InputError:
    numbers = [n for n, own in enumerate(file_operators(graph.ops)) if not {*ops}.isdisjoint(own)]
    shown = ", ".join(f"#{number}" for number in numbers[:_SHOWN])
    return InputError(
        "several operators or tensors have this name",
        where=text,
        why=f"operators {shown} do",
        fix="name the operator by its number, such as '#3'",
    )


def _unknown(graph: Graph, name: str) -> InputError:
    names = dict.fromkeys(source.name for op in graph.ops for source in op.origin.sources)
    names |= dict.fromkeys(tensor.name for tensor in graph.used_tensors() if tensor.name)
    near = get_close_matches(name, names, _SIMILAR)
    return InputError(
        "nothing in the network has this name",
        where=name,
        why=f"similar are {', '.join(map(repr, near))}" if near else "",
        fix="`circlet inspect --operators --tensors` lists all names; '#3' is the fourth operator",
    )
