"""Which operators are placed together: those that share operators of the user's file.

A placement speaks of source operators. Where passes of some level join several into one op, all of
them go to one backend; so do groups that would have to wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter

from circlet.ir import Op, Tensor
from circlet.ops.state import successors


def sources_of(op: Op) -> tuple[str, ...]:
    """The names by which a placement speaks of an op."""
    return tuple(dict.fromkeys(source.name for source in op.origin.sources))


def groups_of(networks: Sequence[Sequence[Op]]) -> list[tuple[str, ...]]:
    """Source names of each group, the same for networks that several levels made of one file.

    Groups stand in an order in which they may run at every level.
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
    for ring in _rings(_edges(parent, networks)):
        for name in ring:
            _join(parent, ring[0], name)
    members: dict[str, list[str]] = {}
    for name in parent:
        members.setdefault(_root(parent, name), []).append(name)
    order = TopologicalSorter(_edges(parent, networks)).static_order()
    return [tuple(members[root]) for root in order]


def _root(parent: dict[str, str], name: str) -> str:
    while parent[name] != name:
        parent[name] = parent[parent[name]]
        name = parent[name]
    return name


def _join(parent: dict[str, str], first: str, second: str) -> None:
    parent[_root(parent, second)] = _root(parent, first)


def _edges(parent: dict[str, str], networks: Sequence[Sequence[Op]]) -> dict[str, dict[str, None]]:
    """For each group those that it waits for."""
    found: dict[str, dict[str, None]] = {}
    for ops in networks:
        for op in ops:
            found.setdefault(_root(parent, sources_of(op)[0]), {})
        for first, second in dependencies(ops):
            before, after = (_root(parent, sources_of(op)[0]) for op in (first, second))
            if before != after:
                found[after][before] = None
    return found


def _rings(edges: dict[str, dict[str, None]]) -> list[list[str]]:
    """Groups that wait for each other: strongly connected components, by Kosaraju's algorithm."""
    behind: dict[str, dict[str, None]] = {name: {} for name in edges}
    for name, before in edges.items():
        for other in before:
            behind[other][name] = None
    seen: set[str] = set()
    order = [name for start in edges for name in _finished(start, edges, seen)]
    seen.clear()
    return [found for start in reversed(order) if (found := _finished(start, behind, seen))]


def _finished(start: str, edges: dict[str, dict[str, None]], seen: set[str]) -> list[str]:
    """What is reached from a group and was not seen, each after all that it leads to."""
    if start in seen:
        return []
    seen.add(start)
    found, open_ = [], [(start, iter(edges[start]))]
    while open_:
        name, rest = open_[-1]
        following = next((other for other in rest if other not in seen), None)
        if following is None:
            found.append(name)
            open_.pop()
        else:
            seen.add(following)
            open_.append((following, iter(edges[following])))
    return found


def dependencies(ops: Sequence[Op]) -> Iterator[tuple[Op, Op]]:
    """Pairs of ops of which the second waits for the first."""
    producers: dict[Tensor, Op] = {t: op for op in ops for t in op.outputs if not t.is_variable}
    for op in ops:
        for tensor in dict.fromkeys(op.inputs):
            if tensor is not None and tensor in producers:
                yield producers[tensor], op
    yield from successors(ops)
