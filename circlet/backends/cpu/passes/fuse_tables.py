"""Element-wise ops over bytes that all follow from one tensor become one table."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.backends.cpu.passes.fuse_elementwise import fused_op
from circlet.ir import Graph, Op, Tensor
from circlet.ops import find
from circlet.ops.fused import FUSED_ELEMENTWISE, FusedAttrs
from circlet.ops.lut import EIGHT_BIT

_MOST_AXES = 6


@dataclass(frozen=True)
class FuseTables:
    """Compute chains of 8-bit ops by one look-up where one tensor's bytes decide the result.

    Before: `MUL(x, LOGISTIC(x)) -> y`, two ops. After: one `FUSED_ELEMENTWISE` op of x that holds
    both. What others read in between is a table of its own. Only native code runs the result:
    placement comes first.
    """

    name = "fuse-tables"

    def run(self, graph: Graph) -> bool:
        """Put one op in the place of each chain of several."""
        chains: dict[Op, _Chain] = {}
        made: dict[Tensor, _Chain] = {}
        for op in graph.ops:
            chain = _chain_of(op, made)
            if chain is not None:
                chains[op] = made[op.outputs[0]] = chain
        readers, outputs = graph.consumers(), frozenset(graph.outputs)
        gone = {
            op
            for op in chains
            if op.outputs[0] not in outputs
            and all(reader in chains for reader in readers.get(op.outputs[0], ()))
        }
        longer = {op: c for op, c in chains.items() if len(c.parts) > 1 and op not in gone}
        if not longer:
            return False
        graph.ops[:] = [
            fused_op(FUSED_ELEMENTWISE, op.outputs, FusedAttrs(longer[op].parts))
            if op in longer
            else op
            for op in graph.ops
            if op not in gone
        ]
        return True


@dataclass(frozen=True)
class _Chain:
    """Ops, in execution order, whose last result follows from one tensor."""

    source: Tensor
    parts: tuple[Op, ...]


def _chain_of(op: Op, made: dict[Tensor, _Chain]) -> _Chain | None:
    """The chain that ends with an op, or None where no table gives its result."""
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
    sources = {c.source if c else t for c, t in zip(before, computed, strict=True)}
    if len(sources) != 1 or op.outputs[0].static_shape != computed[0].static_shape:
        return None
    parts = dict.fromkeys(part for chain in before if chain for part in chain.parts)
    return _Chain(sources.pop(), (*parts, op))


def _is_bytes(tensor: Tensor) -> bool:
    """Whether a table can be of a tensor's elements."""
    if tensor.dtype not in EIGHT_BIT or tensor.is_variable or tensor.elements == 0:
        return False
    is_plain = tensor.quant is None or not tensor.quant.is_per_channel
    return is_plain and len(tensor.static_shape) <= _MOST_AXES
