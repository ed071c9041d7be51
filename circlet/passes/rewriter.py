"""The one object through which passes rewrite a graph; no origin gets lost on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from circlet.cached import cached_property
from circlet.ir import Graph, Op, Origin, Tensor

# What operators may inherit in sum, for each of the graph: where the work of long chains is taken
# over by many, whoever comes later inherits only what nobody has inherited.
_SOURCES_EACH = 8


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
        self._has_own_inputs: set[Op] = set()
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
    def _readers(self) -> dict[Tensor, dict[Op, list[int]]]:
        """The ops that read each tensor, and as which of their inputs."""
        readers: dict[Tensor, dict[Op, list[int]]] = {}
        for op in self.graph.ops:
            for place, tensor in enumerate(op.inputs):
                if tensor is None:
                    continue
                known = readers.get(tensor)
                if known is None:
                    readers[tensor] = {op: [place]}
                elif op in known:
                    known[op].append(place)
                else:
                    known[op] = [place]
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

    def any_reader(self, tensor: Tensor, holds: Callable[[Op], bool]) -> bool:
        """Whether something holds for an op that reads a tensor; looks at no more than it must."""
        return any(map(holds, self._readers.get(tensor, ())))

    def is_private(self, tensor: Tensor) -> bool:
        """Whether exactly one op reads the tensor, once, and nothing outside can see it."""
        readers = self._readers.get(tensor, {})
        if len(readers) != 1 or tensor in self.boundary or tensor.is_variable:
            return False
        (places,) = readers.values()
        return len(places) == 1

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

    def merge(self, op: Op, twin: Op) -> None:
        """Remove an op whose results those of an earlier one equal, which takes its place."""
        self.remove(op)
        for result, same in zip(op.outputs, twin.outputs, strict=True):
            self._redirect(result, same)
        self._inherit([twin], op)

    def share(self, constant: Tensor, same: Tensor) -> None:
        """Have all that read a constant read an equal one."""
        self._note_change()
        self._redirect(constant, same)

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
        self._unite_origins()
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
        for place, tensor in enumerate(op.inputs):
            if tensor is not None:
                self._readers.setdefault(tensor, {}).setdefault(op, []).append(place)
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
        for reader, places in self._readers.pop(old, {}).items():
            if reader not in self._has_own_inputs:  # the list may be another op's, too
                self._has_own_inputs.add(reader)
                reader.inputs = [*reader.inputs]
            for place in places:
                reader.inputs[place] = new
            self._readers.setdefault(new, {}).setdefault(reader, []).extend(places)

    def _inherit(self, heirs: Sequence[Op], op: Op) -> None:
        for heir in heirs:
            self._absorbed.setdefault(heir, []).append(op)

    def _unite_origins(self) -> None:
        left, inherited = _SOURCES_EACH * len(self.graph.ops), set[Op]()
        for op in self.graph.ops:
            if op not in self._absorbed:
                continue
            parts = [op, *self._lineage(op, set() if left > 0 else inherited)]
            inherited.update(parts)
            left -= sum(len(part.origin.sources) for part in parts)
            op.origin = Origin.union(part.origin for part in parts)

    def _lineage(self, op: Op, seen: set[Op]) -> Iterator[Op]:
        """All removed ops whose work an op took over, but for those that were seen."""
        seen.add(op)
        stack = [op]
        while stack:
            fresh = [o for o in self._absorbed.get(stack.pop(), ()) if o not in seen]
            seen.update(fresh)
            stack.extend(fresh)
            yield from fresh

    def _list_tensors(self) -> None:
        """List tensors that came into use, and unlist those that fell out of it."""
        tensors, used = self.graph.tensors, dict.fromkeys(self.graph.used_tensors())
        came, gone = used.keys() - self._used_before, self._used_before - used.keys()
        if came:
            listed = frozenset(tensors)
            tensors += [t for t in used if t in came and t not in listed]
        tensors[:] = [t for t in tensors if t not in gone or t.is_variable]
