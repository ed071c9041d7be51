"""Operators whose sizes a run decides, as operators over tensors that have room for every run.

Kernels and plans know fixed sizes. An open size is therefore a bound, which the tensor's memory has
room for, and a count, one INT64 that a run finds out. Where places do not influence each other,
kernels compute all there is room for, and what lies behind the count means nothing; kernels that
look at several places are told the count (`circlet.ops.bounded`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ir.regions import LOOPS
from circlet.ops.bounded import (
    KINDS,
    SIZE,
    SIZE_LIST,
    TAIL,
    SizeAttrs,
    SizeListAttrs,
    TailAttrs,
    count_tensor,
)
from circlet.plan.partition import Partition, Ports
from circlet.plan.sizes import MADE, Number, Numbers, Size, SizeTable, bounds_of, most_of

_NOWHERE = -1


class NotBoundError(Exception):
    """An operator cannot run over bounds; the message says why, in a clause."""


class Bounds:
    """The tensors and counts that stand for open sizes, and the ops that compute them.

    Args:
        table: What is known of the sizes.
        most_bytes: How large a tensor may be.
        is_trial: Whether counts that nobody finds are taken to be found elsewhere.

    Attributes:
        done: The ops so far, in order.
        loop_work: What loops among them do in all of their turns.
    """

    def __init__(self, table: SizeTable, most_bytes: int, *, is_trial: bool = False) -> None:
        self.table = table
        self.done: list[Op] = []
        self.loop_work = 0
        self.most_bytes, self.is_trial = most_bytes, is_trial
        self._tensors: dict[Tensor, Tensor] = {}
        self._counts: dict[Size, Tensor] = {}
        self._elements: dict[Size, tuple[Tensor, int]] = {}

    def sizes(self, tensor: Tensor) -> Numbers:
        """The sizes of a tensor.

        Raises:
            NotBoundError: Nothing bounds one of them.
        """
        found = self.table.of(tensor)
        if found is None:
            raise NotBoundError("a shape depends on the data of a run, and nothing bounds it")
        return found

    def tensor(self, tensor: Tensor) -> Tensor:
        """What stands for a tensor: itself, unless sizes of it are open.

        Raises:
            NotBoundError: Nothing bounds it, or it might be larger than is allowed.
        """
        if None not in tensor.shape:
            return tensor
        if tensor not in self._tensors:
            shape = bounds_of(self.sizes(tensor))
            made = replace(tensor, shape=shape, default_shape=None, extra=dict(tensor.extra))
            if made.size_bytes > self.most_bytes:
                why = f"{tensor.name} might take {made.size_bytes} bytes"
                raise NotBoundError(f"{why}, the limit is {self.most_bytes}")
            self._tensors[tensor] = made
        return self._tensors[tensor]

    def find(self, size: Number, count: Tensor) -> None:
        """Have a count say what a size is."""
        assert isinstance(size, Size)
        self._counts[size] = count

    def note(self, tensor: Tensor) -> None:
        """Have the elements of a tensor say what sizes are, where nothing does so yet."""
        for place, number in enumerate(self.table.numbers.get(tensor, ())):
            if isinstance(number, Size) and not self.knows(number):
                self._elements[number] = tensor, place

    def count(self, size: Number, op: Op) -> Tensor:
        """The count of a size, computed for an op where it follows from others.

        Raises:
            NotBoundError: It is not found here.
        """
        if isinstance(size, int):
            return constant(f"{op.name} (size)", np.array([size], np.int64))
        if size not in self._counts:
            self._counts[size] = self._computed(size, op)
        return self._counts[size]

    def knows(self, size: Number) -> bool:
        """Whether something says already what a size is."""
        return size in self._counts or size in self._elements

    def _computed(self, size: Size, op: Op) -> Tensor:
        if size in self._elements:
            return _element(*self._elements[size], op, self)
        made = count_tensor(f"{op.name} (size)")
        if size.form == MADE:
            if not self.is_trial:
                raise NotBoundError("an operator of another partition finds a size")
            return made
        fixed = [term for term in size.terms if isinstance(term, int)]
        known = None if not fixed else self.table.joined(size.form, fixed)
        assert known is None or isinstance(known, int)
        terms = [self.count(term, op) for term in size.terms if isinstance(term, Size)]
        self.done.append(Op(SIZE, [*terms], [made], SizeAttrs(size.form, known), op.origin))
        return made

    def add(self, op: Op, kind: str, inputs: Sequence[Tensor | None], attrs: object,
            outputs: Sequence[Tensor]) -> None:  # fmt: skip
        """Append an op that has the origin of another one."""
        self.done.append(Op(kind, [*inputs], [*outputs], attrs, op.origin))

    def add_list(self, op: Op, numbers: Numbers, result: Tensor) -> None:
        """Append what makes a list of sizes, whatever operator computes it, of their counts."""
        inputs, elements = dict[Tensor, int](), list[tuple[bool, int]]()
        for number in numbers:
            is_size = isinstance(number, Size)
            place = inputs.setdefault(self.count(number, op), len(inputs)) if is_size else number
            elements.append((is_size, most_of(place)))
        self.add(op, SIZE_LIST, [*inputs], SizeListAttrs(tuple(elements)), [result])

    def filled(self, op: Op, given: Tensor, axis: int, size: Size, value: int | float) -> Tensor:
        """A tensor with one value behind the count of an axis."""
        made, count = given.like(f"{op.name} (filled)"), self.count(size, op)
        self.add(op, TAIL, [given, count], TailAttrs(axis, value), [made])
        return made

    def repeat(self, op: Op, **changes: object) -> None:
        """Append an op over what stands for its tensors."""
        made = {
            "inputs": [None if t is None else self.tensor(t) for t in op.inputs],
            "outputs": [self.tensor(t) for t in op.outputs],
        }
        self.done.append(replace(op, **{**made, **changes}))  # type: ignore[arg-type]


class InnerBounds(Bounds):
    """The bounds inside a graph that an op runs: counts of sizes from outside are given to it.

    Attributes:
        given: The counts outside that it is given, and those that stand for them inside.
    """

    def __init__(self, outside: Bounds, op: Op) -> None:
        super().__init__(outside.table, outside.most_bytes, is_trial=outside.is_trial)
        self._outside, self._op = outside, op
        self.given: dict[Tensor, Tensor] = {}

    def _computed(self, size: Size, op: Op) -> Tensor:
        try:
            count = self._outside.count(size, self._op)
        except NotBoundError:
            return super()._computed(size, op)
        return self.given.setdefault(count, count_tensor(count.name))


def listed(op: Op, values: Numbers) -> Tensor:
    """A constant list of sizes of an op."""
    return constant(f"{op.name} (sizes)", np.array(values, np.int32))


def needs_bounds(op: Op, table: SizeTable) -> bool:
    """Whether sizes of an op's operands or results, or elements that are sizes, are open."""
    if op.kind in KINDS:
        return False
    if op.kind in LOOPS:
        return op.regions[-1] in table.loops or any(None in t.shape for t in op.outputs)
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    lists_sizes = any(tensor in table.numbers for tensor in op.outputs[:1])
    return lists_sizes or any(None in tensor.shape for tensor in tensors)


def bounded_partition(partition: Partition, table: SizeTable, most_bytes: int) -> Partition:
    """A partition over tensors that have room for every run; itself where no size is open.

    Raises:
        NotBoundError: It has a size that nothing bounds or finds.
    """
    from circlet.backends.cpu.bound_ops import bind

    if not any(needs_bounds(op, table) for op in partition.ops):
        return partition
    bounds = Bounds(table, most_bytes)
    given = _given_counts(partition, bounds)
    for op in partition.ops:
        bind(op, bounds)
    last = partition.ops[-1]
    found: dict[Size, Tensor] = {}
    for size in _open_sizes(partition.outputs, bounds):
        if size not in given:
            found[size] = bounds.count(size, last)
    numbers = {size: index for index, size in enumerate((*given, *found))}
    ports = Ports(
        (*map(bounds.tensor, partition.inputs), *given.values()),
        (*map(bounds.tensor, partition.outputs), *found.values()),
        _places(partition.inputs, bounds, numbers),
        _places(partition.outputs, bounds, numbers),
    )
    return replace(partition, ops=tuple(bounds.done), ports=ports)


def _given_counts(partition: Partition, bounds: Bounds) -> dict[Size, Tensor]:
    """The counts of the open sizes of what a partition is given."""
    given: dict[Size, Tensor] = {}
    for size in _open_sizes(partition.inputs, bounds):
        given[size] = count_tensor(f"size {len(given)}")
        bounds.find(size, given[size])
    for tensor in partition.inputs:
        bounds.note(tensor)
    return given


def _element(tensor: Tensor, place: int, op: Op, bounds: Bounds) -> Tensor:
    """An element of a list of sizes, as a count."""
    from circlet.ops.gather import GatherAttrs
    from circlet.ops.quantize import CastAttrs
    from circlet.ops.shape import ReshapeAttrs

    flat = Tensor(tensor.name, tensor.dtype, (tensor.elements,))
    taken = Tensor(tensor.name, tensor.dtype, (1,))
    index = constant("place", np.array([place], np.int32))
    bounds.add(op, "RESHAPE", [tensor], ReshapeAttrs((tensor.elements,)), [flat])
    bounds.add(op, "GATHER", [flat, index], GatherAttrs(0), [taken])
    if tensor.dtype is DType.INT64:
        return taken
    made = count_tensor(tensor.name)
    bounds.add(op, "CAST", [taken], CastAttrs(tensor.dtype.name, "INT64"), [made])
    return made


def _open_sizes(tensors: Sequence[Tensor], bounds: Bounds) -> list[Size]:
    """The open sizes of tensors, each once."""
    sizes = [size for t in tensors if None in t.shape for size in bounds.sizes(t)]
    return list(dict.fromkeys(size for size in sizes if isinstance(size, Size)))


def _places(
    tensors: Sequence[Tensor], bounds: Bounds, numbers: dict[Size, int]
) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(
            numbers[size] if isinstance(size, Size) else _NOWHERE for size in bounds.sizes(tensor)
        )
        for tensor in tensors
    )
