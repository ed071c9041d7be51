"""Element-wise ops over the same sizes become one kernel call."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.backends.cpu.passes.fusion import KernelLimits, fused_op, is_elementwise
from circlet.ir import Graph, Op
from circlet.ops.fused import FUSED_ELEMENTWISE, FusedAttrs
from circlet.ops.onnx.quantisation import DEQUANTIZE, QUANTIZE
from circlet.passes import Rewriter


@dataclass(frozen=True)
class FuseElementwise:
    """Compute chains of element-wise ops element by element, without memory in between.

    Before: `TANH(ADD(a, b)) -> y`, two ops. After: one `FUSED_ELEMENTWISE` op that holds both.
    Every op of a chain has the same output sizes; operands may be broadcast, and so may a stored
    operand of a sum that is stored again, as sums of bytes have a kernel. Each op is rounded as
    before, so results stay equal bit for bit. What others read in between is written as well.
    """

    name = "fuse-elementwise"

    def run(self, graph: Graph) -> bool:
        """Fuse every chain that can be."""
        rewriter = Rewriter(graph)
        groups = _Groups(rewriter)
        for op in rewriter.ops():
            if is_elementwise(op):
                groups.take(op)
        for parts in groups.several():
            attrs = FusedAttrs(parts)
            rewriter.replace(parts, fused_op(FUSED_ELEMENTWISE, rewriter.results(parts), attrs))
        return rewriter.finish()


@dataclass(frozen=True, eq=False)
class _Group:
    """Ops that one kernel will compute, in execution order."""

    parts: tuple[Op, ...]


class _Groups:
    """The fusion groups of a graph, grown in execution order; each runs where its last op was."""

    def __init__(self, rewriter: Rewriter) -> None:
        self._rewriter = rewriter
        self._group_of: dict[Op, _Group] = {}
        self._limits = KernelLimits()

    def take(self, op: Op) -> None:
        """Put an op into the groups of its inputs as far as that is possible."""
        joined = _Group((op,))
        for group in self._groups_before(op):
            union = sorted((*joined.parts, *group.parts), key=self._rewriter.position)
            if self._fits(union):
                joined = _Group(tuple(union))
        for part in joined.parts:
            self._group_of[part] = joined

    def several(self) -> list[tuple[Op, ...]]:
        """The parts of each group of more than one."""
        return [g.parts for g in dict.fromkeys(self._group_of.values()) if len(g.parts) > 1]

    def _groups_before(self, op: Op) -> list[_Group]:
        """The groups that an op reads from and whose sizes it may have, the latest first."""
        shape, is_stored = op.outputs[0].static_shape, self._is_stored_sum(op)
        groups = {
            self._group_of[producer]: self._rewriter.position(producer)
            for producer in map(self._rewriter.producer, op.inputs)
            if producer in self._group_of
            if is_stored or producer.outputs[0].static_shape == shape
        }
        return sorted(groups, key=groups.__getitem__, reverse=True)

    def _is_stored_sum(self, op: Op) -> bool:
        """Whether an op sums two stored operands for one that stores the sum, all read once."""
        ahead = [self._rewriter.producer(tensor) for tensor in op.inputs]
        behind = self._rewriter.readers(op.outputs[0])
        if op.kind not in ("ADD", "SUB") or [reader.label for reader in behind] != [QUANTIZE]:
            return False
        return all(
            made is not None
            and made.label == DEQUANTIZE
            and made in self._group_of
            and self._group_of[made].parts == (made,)
            and self._rewriter.is_private(made.outputs[0])
            for made in ahead
        )

    def _fits(self, parts: list[Op]) -> bool:
        """Whether the ops may run together at the place of the last one."""
        position = self._rewriter.position
        inside, end = set(parts), position(parts[-1])

        def is_between(reader: Op) -> bool:
            return reader not in inside and position(reader) < end

        if any(self._rewriter.any_reader(part.outputs[0], is_between) for part in parts[:-1]):
            return False
        return self._limits.hold(parts, self._rewriter.results(parts))
