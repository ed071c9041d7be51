"""Hash tables become the constants that fill them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from circlet.errors import GraphError
from circlet.ir import Graph, Op, RawAttrs, Tensor
from circlet.ir.regions import reachable
from circlet.ops import NoAttrs
from circlet.passes.rewriter import Rewriter

_TABLE, _IMPORT, _ONCE = "HASHTABLE", "HASHTABLE_IMPORT", "CALL_ONCE"
_READERS = {"HASHTABLE_FIND": 3, "HASHTABLE_SIZE": 1}  # and their operands in files


@dataclass
class _Tables:
    """Keys and values of tables by their numbers, and the handles that refer to them."""

    by_handle: dict[Tensor, int]
    filled: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)


def resolve_tables(main: Graph) -> bool:
    """Give operators of hash tables the constants that fill these.

    Before: `h = HASHTABLE; y = HASHTABLE_FIND(h, x, default)`, with a CALL_ONCE whose graph does
    `HASHTABLE_IMPORT(h, keys, values)`. After: `y = HASHTABLE_FIND(keys, x, default, values)`. The
    first import of a table counts. True if anything changed.

    Raises:
        GraphError: A table is used and never filled, or not filled with constants.
    """
    graphs = reachable(main)
    handles = [op for graph in graphs for op in graph.ops if op.kind == _TABLE]
    if not handles:
        return False
    tables = _Tables({op.outputs[0]: _number(op) for op in handles if op.outputs})
    for graph in (*graphs[1:], main):
        for op in graph.ops:
            if op.kind == _IMPORT:
                _fill(op, tables)
    emptied = [graph for graph in graphs if _resolve(graph, tables)]
    for graph in graphs:
        _forget_calls(graph, emptied)
    return True


def _number(op: Op) -> int:
    fields = op.attrs.fields if isinstance(op.attrs, RawAttrs) else {}
    number = fields.get("table_id", 0)
    return number if isinstance(number, int) else 0


def _table_of(op: Op, tables: _Tables) -> int:
    handle = op.input(0)
    if handle is None or handle not in tables.by_handle:
        why = "its handle is not the result of a HASHTABLE in the same graph"
        raise GraphError("an operator refers to no hash table", where=op.name, why=why)
    return tables.by_handle[handle]


def _fill(op: Op, tables: _Tables) -> None:
    keys, values, number = op.input(1), op.input(2), _table_of(op, tables)
    if keys is None or values is None or not (keys.is_constant and values.is_constant):
        why = "its keys or values are not constant"
        raise GraphError("a hash table is not filled with constants", where=op.name, why=why)
    if len(op.inputs) != 3 or keys.shape != values.shape:
        why = "there are not as many values as keys"
        raise GraphError("a hash table cannot be filled", where=op.name, why=why)
    tables.filled.setdefault(number, (keys, values))


def _resolve(graph: Graph, tables: _Tables) -> bool:
    """Rewrite what concerns tables; whether nothing is left of a graph that had something."""
    rewriter, had_ops = Rewriter(graph), bool(graph.ops)
    for op in rewriter.ops():
        if op.kind in (_TABLE, _IMPORT):
            rewriter.remove(op)
        elif op.kind in _READERS:
            rewriter.replace([op], _reader(op, tables))
    rewriter.finish()
    return had_ops and not graph.ops


def _reader(op: Op, tables: _Tables) -> Op:
    number = _table_of(op, tables)
    if number not in tables.filled:
        raise GraphError("a hash table is used and never filled", where=op.name)
    if len(op.inputs) != _READERS[op.kind]:
        raise GraphError(f"{op.kind} has not {_READERS[op.kind]} inputs", where=op.name)
    keys, values = tables.filled[number]
    after = [values] if op.kind == "HASHTABLE_FIND" else []
    return replace(op, inputs=[keys, *op.inputs[1:], *after], attrs=NoAttrs())


def _forget_calls(graph: Graph, emptied: list[Graph]) -> None:
    """Drop the calls of graphs that did nothing but fill tables."""
    rewriter = Rewriter(graph)
    for op in rewriter.ops():
        if op.kind == _ONCE and op.regions and all(region in emptied for region in op.regions):
            rewriter.remove(op)
    rewriter.finish()
