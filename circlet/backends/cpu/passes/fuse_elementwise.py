"""Element-wise ops over the same sizes become one kernel call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ops.expr import Param, leaves
from circlet.ops.fused import (
    FUSED_ELEMENTWISE,
    MOST_FLOATS,
    MOST_INTS,
    MOST_OPERANDS,
    FusedAttrs,
    data_inputs,
)
from circlet.ops.scalars import element_scalar

_COMPUTED = frozenset({DType.FLOAT32, DType.INT32, DType.BOOL})
_STORED = frozenset({DType.INT8, DType.UINT8, DType.INT16})
_MOST_AXES = 6
_MOST_PARTS = 24


@dataclass(frozen=True)
class FuseElementwise:
    """Compute chains of element-wise ops element by element, without memory in between.

    Before: `TANH(ADD(a, b)) -> y`, two ops. After: one `FUSED_ELEMENTWISE` op that holds both.
    Every op of a chain has the same output sizes; operands may be broadcast. Each op is rounded
    as before, so results stay equal bit for bit. What others read in between is written as well.
    Only native code runs the result: placement comes first.
    """

    name = "fuse-elementwise"

    def run(self, graph: Graph) -> bool:
        """Fuse every chain that can be."""
        chains = Chains(graph)
        for op in graph.ops:
            if is_elementwise(op):
                chains.take(op)
        return chains.finish()


def is_elementwise(op: Op) -> bool:
    """Whether an op computes floats (or masks and indices for them) element by element."""
    tensors = [*op.inputs, *op.outputs]
    if len(op.outputs) != 1 or any(t is None or t.is_variable for t in tensors):
        return False
    types = {t.dtype for t in tensors if t is not None}
    changes = op.kind in ("QUANTIZE", "DEQUANTIZE", "CAST") and DType.FLOAT32 in types
    if not types <= (_COMPUTED | _STORED if changes else _COMPUTED):
        return False
    source, shape = op.inputs[0], op.outputs[0].static_shape
    if source is None or (source.quant is not None and source.quant.is_per_channel and changes):
        return False
    sized = op.outputs[0].elements > 0 and len(shape) <= _MOST_AXES
    return sized and element_scalar(op) is not None


@dataclass(eq=False)
class Chain:
    """Ops that one kernel will compute, in execution order."""

    parts: list[Op] = field(default_factory=list)


class Chains:
    """The chains of a graph, grown in execution order; each runs where its last op was."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._position = {op: index for index, op in enumerate(graph.ops)}
        self._readers = graph.consumers()
        self._producers = graph.producers()
        self._outputs = frozenset(graph.outputs)
        self._chain_of: dict[Op, Chain] = {}
        self._room = Room()

    def take(self, op: Op) -> None:
        """Put an op into the chains of its inputs as far as that is possible."""
        joined = Chain([op])
        for chain in self._chains_before(op):
            union = sorted((*joined.parts, *chain.parts), key=self._position.__getitem__)
            if self._fits(union):
                joined = Chain(union)
        for part in joined.parts:
            self._chain_of[part] = joined

    def finish(self) -> bool:
        """Put one op in the place of each chain of several; True if there was any."""
        chains = {id(c): c for c in self._chain_of.values() if len(c.parts) > 1}.values()
        fused = {
            c.parts[-1]: fused_op(FUSED_ELEMENTWISE, self.results(c), FusedAttrs(tuple(c.parts)))
            for c in chains
        }
        gone = {part for chain in chains for part in chain.parts} - fused.keys()
        ops = [fused.get(op, op) for op in self._graph.ops if op not in gone]
        self._graph.ops[:] = ops
        return bool(fused)

    def results(self, chain: Chain) -> list[Tensor]:
        """What others read of a chain's results."""
        return results_of(chain.parts, self._readers, self._outputs)

    def _chains_before(self, op: Op) -> list[Chain]:
        """The chains that an op reads from and whose sizes it has, the latest first."""
        made = [self._producers[t] for t in op.inputs if t in self._producers]
        shape = op.outputs[0].static_shape
        chains = {
            self._chain_of[producer]: self._position[producer]
            for producer in made
            if producer in self._chain_of and producer.outputs[0].static_shape == shape
        }
        return sorted(chains, key=chains.__getitem__, reverse=True)

    def _fits(self, parts: list[Op]) -> bool:
        """Whether the ops may run together at the place of the last one."""
        inside, end = set(parts), self._position[parts[-1]]
        for part in parts[:-1]:
            readers = self._readers.get(part.outputs[0], ())
            if any(r not in inside and self._position[r] < end for r in readers):
                return False
        results = results_of(parts, self._readers, self._outputs)
        return self._room.holds(parts, results)


def results_of(
    parts: list[Op], readers: dict[Tensor, list[Op]], outputs: frozenset[Tensor]
) -> list[Tensor]:
    """What is read outside of ops that run together, the last op's results first."""
    inside = set(parts)
    made = [tensor for part in reversed(parts) for tensor in part.outputs]
    return [t for t in made if t in outputs or not inside.issuperset(readers.get(t, ()))]


def external_inputs(parts: Sequence[Op]) -> list[Tensor]:
    """What ops that run together read from outside, each once, in order of use."""
    made = {tensor for part in parts for tensor in part.outputs}
    read = (tensor for part in parts for tensor in data_inputs(part))
    return list(dict.fromkeys(tensor for tensor in read if tensor not in made))


class Room:
    """Whether what ops need finds room in one kernel call."""

    def __init__(self) -> None:
        self._known: dict[Op, tuple[int, int]] = {}

    def holds(self, parts: list[Op], results: list[Tensor]) -> bool:
        """Whether operands and parameters of the ops fit."""
        floats, ints = (sum(numbers) for numbers in zip(*map(self._parameters, parts), strict=True))
        if floats > MOST_FLOATS or ints > MOST_INTS or len(parts) > _MOST_PARTS:
            return False
        return len(external_inputs(parts)) + len(results) <= MOST_OPERANDS

    def _parameters(self, op: Op) -> tuple[int, int]:
        """Float and whole parameters of an op's expression."""
        if op not in self._known:
            scalar = element_scalar(op)
            found = leaves(scalar.expr) if scalar is not None else []
            kinds = [leaf.kind for leaf in found if isinstance(leaf, Param)]
            self._known[op] = kinds.count("f32"), kinds.count("i32")
        return self._known[op]


def fused_op(kind: str, results: list[Tensor], attrs: FusedAttrs) -> Op:
    """One op for several, with the origins of all."""
    origin = Origin.union(part.origin for part in attrs.parts)
    inputs: list[Tensor | None] = [*external_inputs(attrs.parts)]
    return Op(kind, inputs, results, attrs, origin)
