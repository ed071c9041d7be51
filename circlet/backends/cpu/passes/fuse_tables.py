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
_MOST_PARTS = 32


@dataclass(frozen=True)
class FuseTables:
    """Compute chains of element-wise ops by one look-up from bytes to bytes.

    Before: `MUL(x, LOGISTIC(x)) -> y`, two ops of bytes; or `DequantizeLinear(x) -> ... ->
    QuantizeLinear`, whatever lies between. After: one `FUSED_ELEMENTWISE` op of x that holds all.
    What others read in between is a table of its own, or stays where it is no byte.
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
        inner, ends = _inner_and_ends(tables, rewriter)
        longer = [op for op in ends if len(tables[op].parts) > 1]
        if not longer:
            return False
        for op in longer:
            parts = tables[op].parts
            fused = fused_op(FUSED_ELEMENTWISE, op.outputs, FusedAttrs(parts))
            fused.origin = Origin.union(part.origin for part in parts)
            rewriter.replace([op], fused)
        for op in inner:
            rewriter.remove(op)
        return rewriter.finish()


@dataclass(frozen=True)
class _Table:
    """Ops, in execution order, whose last result follows from the bytes of one tensor."""

    source: Tensor
    parts: tuple[Op, ...]


def _inner_and_ends(tables: dict[Op, _Table], rewriter: Rewriter) -> tuple[list[Op], list[Op]]:
    """The ops that tables alone read, which compute them themselves; and those that end a table."""
    inner: list[Op] = []
    ends: list[Op] = []
    used: set[Op] = set()
    for op in reversed(tables):
        (result,) = op.outputs
        readers = rewriter.readers(result)
        is_read_inside = all(r in used and tables[r].source is not result for r in readers)
        if result not in rewriter.boundary and is_read_inside:
            inner.append(op)
        elif _is_bytes(result):
            ends.append(op)
        else:
            continue
        used.add(op)
    return inner, ends


def _table_of(op: Op, made: Mapping[Tensor, _Table]) -> _Table | None:
    """The table that ends with an op, or None where no bytes decide its result."""
    record = find(op.label)
    if len(op.outputs) != 1 or record is None:
        return None
    if op.kind != "QUANTIZE" and record.scalar is None:
        return None
    inputs = [tensor for tensor in op.inputs if tensor is not None]
    computed = [t for t in inputs if not (t.is_constant and t.elements == 1)]
    if not computed or op.outputs[0].static_shape != computed[0].static_shape:
        return None
    before = [made.get(tensor) for tensor in computed]
    sources = {b.source if b else t for b, t in zip(before, computed, strict=True)}
    parts = dict.fromkeys(part for table in before if table for part in table.parts)
    if len(parts) >= _MOST_PARTS:
        parts, sources = {}, {*computed}
    if len(sources) != 1 or not all(map(_is_bytes, sources)) or not _has_one_scale(op):
        return None
    return _Table(sources.pop(), (*parts, op))


def _has_one_scale(op: Op) -> bool:
    """Whether the result has no scales of channels, which a table knows nothing of."""
    quant = op.outputs[0].quant
    return quant is None or not quant.is_per_channel


def _is_bytes(tensor: Tensor) -> bool:
    """Whether a table can be of a tensor's elements."""
    if tensor.dtype not in EIGHT_BIT or tensor.is_variable or tensor.elements == 0:
        return False
    is_plain = tensor.quant is None or not tensor.quant.is_per_channel
    return is_plain and len(tensor.static_shape) <= _MOST_AXES
