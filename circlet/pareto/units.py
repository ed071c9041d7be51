"""Which operators are placed together: those that share operators of the user's file.

A placement speaks of source operators. Where passes of some level join several into one op, all of
them go to one backend; so do units that would have to wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from circlet.ir import Op, Tensor
from circlet.ops.state import successors


def sources_of(op: Op) -> tuple[str, ...]:
    """The names by which a placement speaks of an op."""
    return tuple(dict.fromkeys(source.name for source in op.origin.sources))


def units_of(networks: Sequence[Sequence[Op]]) -> list[tuple[str, ...]]:
    """Source names of each unit, the same for networks that several levels made of one file.

    Units stand in an order in which they may run at every level.
    """
    parent: dict[str, str] = {}
    for ops in networks:
        labels = {op.label for op in ops}
        for op in ops:
            names = sources_of(op)
            for name in names:
                parent.setdefault(name, name)
                _join(parent, names[0], name)
        for op in ops:
            for name in labels & parent.keys():
                if op.label == name:  # a rule about the name is one about the kind as well
                    _join(parent, name, sources_of(op)[0])
    while (ring := _ring(parent, networks)) is not None:
        for name in ring:
            _join(parent, ring[0], name)
    members: dict[str, list[str]] = {}
    for name in parent:
        members.setdefault(_root(parent, name), []).append(name)
    return [tuple(members[root]) for root in _sorter(parent, networks).static_order()]


def _root(parent: dict[str, str], name: str) -> str:
    while parent[name] != name:
        parent[name] = parent[parent[name]]
        name = parent[name]
    return name


def _join(parent: dict[str, str], first: str, second: str) -> None:
    parent[_root(parent, second)] = _root(parent, first)


def _ring(parent: dict[str, str], networks: Sequence[Sequence[Op]]) -> list[str] | None:
    """Units that wait for each other; None where there are none."""
    try:
        _sorter(parent, networks).prepare()
    except CycleError as error:
        return list(dict.fromkeys(error.args[1]))
    return None


def _sorter(parent: dict[str, str], networks: Sequence[Sequence[Op]]) -> TopologicalSorter[str]:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for ops in networks:
        for op in ops:
            sorter.add(_root(parent, sources_of(op)[0]))
        for first, second in dependencies(ops):
            pair = [_root(parent, sources_of(op)[0]) for op in (first, second)]
            if pair[0] != pair[1]:
                sorter.add(pair[1], pair[0])
    return sorter


def dependencies(ops: Sequence[Op]) -> Iterator[tuple[Op, Op]]:
    """Pairs of ops of which the second waits for the first."""
    producers: dict[Tensor, Op] = {t: op for op in ops for t in op.outputs if not t.is_variable}
    for op in ops:
        for tensor in dict.fromkeys(op.inputs):
            if tensor is not None and tensor in producers:
                yield producers[tensor], op
    yield from successors(ops)
