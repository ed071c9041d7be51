"""The one object through which passes rewrite a graph; no origin gets lost on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from circlet.cached import cached_property
from circlet.ir import BlockwiseQuant, Graph, Op, Origin, Tensor


class Rewriter:
    """Collects rewrites of one graph; `finish` carries them out in time linear in the graph.

    Graph inputs and outputs are fixed: a rewrite keeps these tensor objects, so signatures and
    callers that hold them stay right. Whoever takes over the work of a removed op also takes over
    its origin, and tensors that come into use are listed in the graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.boundary = frozenset([*graph.inputs, *graph.outputs])
        self._absorbed: dict[Op, list[Op]] = {}
        self._changed = False

    # What follows is looked up once it is asked for: most passes find nothing to do. Whatever
    # changes the graph asks first.
    @cached_property
    def _slots(self) -> list[list[Op]]:
        return [[op] for op in self.graph.ops]

    @cached_property
    def _slot_of(self) -> dict[Op, int]:
        return {op: index for index, op in enumerate(self.graph.ops)}

    @cached_property
    def _producers(self) -> dict[Tensor, Op]:
        return self.graph.producers()

    @cached_property
    def _readers(self) -> dict[Tensor, dict[Op, None]]:
        readers: dict[Tensor, dict[Op, None]] = {}
        for op in self.graph.ops:
            for tensor in op.inputs:
                if tensor is not None:
                    readers.setdefault(tensor, {})[op] = None
        return readers

    @cached_property
    def _used_before(self) -> frozenset[Tensor]:
        return frozenset(self.graph.used_tensors())

    def ops(self) -> Iterator[Op]:
        """The ops in execution order, as they are when the iteration reaches them.

        It comes to no op that is put in the place of the one it is at, or that is appended.
        """
        for index, op in enumerate(self.graph.ops):
            if not self._changed:
                yield op
                continue
            slot = self._slots[index]
            yield from (op for op in [*slot] if op in slot)

    def position(self, op: Op) -> int:
        """Where an op stands in the order of execution; equal for ops that replaced one."""
        return self._slot_of[op]

    def producer(self, tensor: Tensor | None) -> Op | None:
        """The op that writes a tensor, or None."""
        return None if tensor is None else self._producers.get(tensor)

    def readers(self, tensor: Tensor) -> list[Op]:
        """The ops that read a tensor now."""
        return list(self._readers.get(tensor, ()))

    def is_private(self, tensor: Tensor) -> bool:
        """Whether exactly one op reads the tensor, once, and nothing outside can see it."""
        readers = self._readers.get(tensor, ())
        if len(readers) != 1 or tensor in self.boundary or tensor.is_variable:
            return False
        (reader,) = readers
        return reader.inputs.count(tensor) == 1

    def is_read(self, tensor: Tensor) -> bool:
        """Whether an op reads the tensor or something outside can see it."""
        return bool(self._readers.get(tensor)) or tensor in self.boundary or tensor.is_variable

    def results(self, ops: Sequence[Op]) -> list[Tensor]:
        """What is read outside of ops that run together, the last op's results first."""
        inside = set(ops)
        made = [tensor for op in reversed(ops) for tensor in op.outputs]
        readers, seen = self._readers, self.boundary
        return [t for t in made if t in seen or not inside.issuperset(readers.get(t, ()))]

    def replace(self, old: Sequence[Op], *new: Op) -> None:
        """Put new ops, in order, in the place of the last of `old`, given in execution order.

        The new ops write what is read of the old ones' results. Each descends from all of `old`,
        and from whatever origin it has already.
        """
        last = old[-1]
        index = self._slot_of[last]
        slot = self._slots[index]
        place = slot.index(last)
        for op in old:
            self.remove(op)
        slot[place:place] = new
        for op in new:
            self._slot_of[op] = index
            # `finish` unions the origins; doing so here would take quadratic time over long chains.
            self._absorbed[op] = list(old)
            self._attach(op)

    def append(self, op: Op) -> None:
        """Have a new op run after all others."""
        self._note_change()
        self._slot_of[op] = len(self._slots)
        self._slots.append([op])
        self._attach(op)

    def bypass(self, op: Op, source: Tensor) -> bool:
        """Remove an op whose one output equals `source`; False where both must stay."""
        (result,) = op.outputs
        if source.is_variable or result.is_variable:
            return False
        if result in self.boundary:
            return self._produce_directly(op, source, result)
        heirs = self._heirs(source, result)
        self.remove(op)
        self._redirect(result, source)
        self._inherit(heirs, op)
        return True

    def fold(self, op: Op, values: Mapping[Tensor, np.ndarray]) -> None:
        """Remove an op whose outputs have become the given constants."""
        heirs = [reader for tensor in op.outputs for reader in self.readers(tensor)]
        self.remove(op)
        for tensor, value in values.items():
            tensor.data = value
            tensor.data.flags.writeable = False
        self._inherit(heirs, op)

    def remove(self, op: Op) -> None:
        """Remove an op; nothing inherits its origin."""
        self._note_change()
        self._slots[self._slot_of[op]].remove(op)
        for tensor in op.inputs:
            if tensor is not None:
                self._readers[tensor].pop(op, None)
        for tensor in op.outputs:
            self._producers.pop(tensor, None)

    def finish(self) -> bool:
        """Carry out what was collected; True if anything changed."""
        if not self._changed:
            return False
        self.graph.ops[:] = [op for slot in self._slots for op in slot]
        for op in self.graph.ops:
            if op in self._absorbed:
                op.origin = Origin.union(part.origin for part in self._lineage(op))
        self._list_tensors()
        return True

    def _note_change(self) -> None:
        """Before the first change, look up how the graph was."""
        if not self._changed:
            self._changed = True
            self._before = (
                self._slots,
                self._slot_of,
                self._producers,
                self._readers,
                self._used_before,
            )

    def _attach(self, op: Op) -> None:
        for tensor in op.inputs:
            if tensor is not None:
                self._readers.setdefault(tensor, {})[op] = None
        self._producers.update(dict.fromkeys(op.outputs, op))

    def _heirs(self, source: Tensor, result: Tensor) -> list[Op]:
        producer = self._producers.get(source)
        return self.readers(result) if producer is None else [producer]

    def _produce_directly(self, op: Op, source: Tensor, result: Tensor) -> bool:
        """Let the producer of `source` write `result`, a graph output that must stay."""
        producer = self._producers.get(source)
        if producer is None or source in self.boundary:
            return False
        self.remove(op)
        producer.outputs = [result if t is source else t for t in producer.outputs]
        self._producers[result] = producer
        self._redirect(source, result)
        self._inherit([producer], op)
        return True

    def _redirect(self, old: Tensor, new: Tensor) -> None:
        for reader in self._readers.pop(old, {}):
            reader.inputs = [new if t is old else t for t in reader.inputs]
            self._readers.setdefault(new, {})[reader] = None

    def _inherit(self, heirs: Sequence[Op], op: Op) -> None:
        for heir in heirs:
            self._absorbed.setdefault(heir, []).append(op)

    def _lineage(self, op: Op) -> Iterator[Op]:
        """An op and all removed ops whose work it took over."""
        seen, stack = {op}, [op]
        while stack:
            part = stack.pop()
            yield part
            fresh = [o for o in self._absorbed.get(part, ()) if o not in seen]
            seen.update(fresh)
            stack.extend(fresh)

    def _list_tensors(self) -> None:
        """List tensors that came into use, and unlist those that fell out of it.

        None is unlisted where some tensor refers to others by index.
        """
        tensors, used = self.graph.tensors, dict.fromkeys(self.graph.used_tensors())
        came, gone = used.keys() - self._used_before, self._used_before - used.keys()
        if came:
            listed = frozenset(tensors)
            tensors += [t for t in used if t in came and t not in listed]
        if not any(t.quant and isinstance(t.quant.details, BlockwiseQuant) for t in tensors):
            tensors[:] = [t for t in tensors if t not in gone or t.is_variable]
