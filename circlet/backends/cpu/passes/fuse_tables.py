"""Element-wise ops over bytes that all follow from one tensor become one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from circlet.backends.cpu.passes.fusion import fused_op
from circlet.ir import Graph, Op, Origin, Tensor
from circlet.ops import find
from circlet.ops.fused import FUSED_ELEMENTWISE, FusedAttrs
from circlet.ops.lut import EIGHT_BIT
from circlet.passes import Rewriter

_MOST_AXES = 6
_MOST_PARTS = 16


@dataclass(frozen=True)
class FuseTables:
    """Compute chains of 8-bit ops by one look-up where one tensor's bytes decide the result.

    Before: `MUL(x, LOGISTIC(x)) -> y`, two ops. After: one `FUSED_ELEMENTWISE` op of x that holds
    both. What others read in between is a table of its own.
    """

    name = "fuse-tables"

    def run(self, graph: Graph) -> bool:
        """Put one op in the place of each chain of several."""
        rewriter = Rewriter(graph)
        tables: dict[Op, _Table] = {}
        made: dict[Tensor, _Table] = {}
        for op in graph.ops:
            table = _table_of(op, made)
            if table is not None:
                tables[op] = made[op.outputs[0]] = table
        gone = {op: t for op, t in tables.items() if _is_only_in(tables, op, rewriter)}
        longer = {op: t for op, t in tables.items() if len(t.parts) > 1 and op not in gone}
        if not longer:
            return False
        for op, table in longer.items():
            fused = fused_op(FUSED_ELEMENTWISE, op.outputs, FusedAttrs(table.parts))
            fused.origin = Origin.union(part.origin for part in table.parts)
            rewriter.replace([op], fused)
        for op in gone:
            rewriter.remove(op)
        return rewriter.finish()


@dataclass(frozen=True)
class _Table:
    """Ops, in execution order, whose last result follows from one tensor."""

    source: Tensor
    parts: tuple[Op, ...]


def _is_only_in(tables: Mapping[Op, _Table], op: Op, rewriter: Rewriter) -> bool:
    """Whether tables alone read what an op computes, so that they compute it themselves."""
    (result,) = op.outputs
    if result in rewriter.boundary:
        return False
    return not rewriter.any_reader(
        result, lambda reader: reader not in tables or tables[reader].source is result
    )


def _table_of(op: Op, made: Mapping[Tensor, _Table]) -> _Table | None:
    """The table that ends with an op, or None where none gives its result."""
    record = find(op.label)
    if len(op.outputs) != 1 or record is None:
        return None
    if op.kind != "QUANTIZE" and record.scalar is None:
        return None
    inputs = [tensor for tensor in op.inputs if tensor is not None]
    if not all(map(_is_bytes, (*inputs, op.outputs[0]))):
        return None
    computed = [t for t in inputs if not (t.is_constant and t.elements == 1)]
    before = [made.get(tensor) for tensor in computed]
    sources = {b.source if b else t for b, t in zip(before, computed, strict=True)}
    if len(sources) != 1 or op.outputs[0].static_shape != computed[0].static_shape:
        return None
    parts = dict.fromkeys(part for table in before if table for part in table.parts)
    if len(parts) < _MOST_PARTS:
        return _Table(sources.pop(), (*parts, op))
    return _Table(computed[0], (op,)) if len({*computed}) == 1 else None


def _is_bytes(tensor: Tensor) -> bool:
    """Whether a table can be of a tensor's elements."""
    if tensor.dtype not in EIGHT_BIT or tensor.is_variable or tensor.elements == 0:
        return False
    is_plain = tensor.quant is None or not tensor.quant.is_per_channel
    return is_plain and len(tensor.static_shape) <= _MOST_AXES
