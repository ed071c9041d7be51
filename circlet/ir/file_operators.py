"""The operators of a file, of some of which reading makes several ops."""

from __future__ import annotations

from collections.abc import Iterable

from circlet.ir.graph import Op


def file_operators(ops: Iterable[Op]) -> list[list[Op]]:
    """The ops of each operator of a file, in its order.

    Readers give all ops that they make of one operator the same origin, as an object: files that
    were optimised before may have several operators of equal origins.
    """
    found: dict[int, list[Op]] = {}
    for op in ops:
        found.setdefault(id(op.origin), []).append(op)
    return list(found.values())
