"""Decides where every tensor of a partition lives before any op is lowered.

Each tensor gets an `Allocation`: a buffer (in the arena, or the caller's) and a layout inside it.
Reshapes, slices and parts that are one run of their input share its buffer, inputs of a
concatenation are written straight into its output, and an image whose consumer pads it sits in the
middle of a bordered buffer. Where sharing is not possible the compiler inserts a copy: correct
first, then free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from circlet.backends.cpu.inplace import InPlace
from circlet.backends.cpu.layout import Border, Layout, bordered, dense
from circlet.backends.cpu.lowering import Lowering
from circlet.backends.cpu.parts import channels_of, run_of, viewed
from circlet.backends.cpu.shared_buffers import SharedBuffers
from circlet.backends.cpu.updates import living_updates, updated_operands
from circlet.ir import DType, Op, Tensor
from circlet.ops import find
from circlet.ops.fused import FUSED_ELEMENTWISE
from circlet.ops.operands import is_reshape
from circlet.ops.scalars import element_scalar
from circlet.plan.partition import Partition

RESIDENT = "resident"
_LONG_RUN_BYTES = 64


@dataclass(eq=False)
class Buffer:
    """Memory for one or more tensors.

    Attributes:
        name: The tensor it is made for.
        space: "arena", RESIDENT (kept from run to run), "input" or "output" (the caller's buffers).
        index: Position of the caller's buffer.
        size_bytes: Bytes, without slack.
    """

    name: str
    space: str
    index: int
    size_bytes: int


class Allocation(NamedTuple):
    """A tensor's buffer and its layout there."""

    buffer: Buffer
    layout: Layout


class Storage:
    """Allocations of all tensors of a partition, and the padded copies that some consumers need.

    Attributes:
        allocations: That of each computed tensor, padded copies included.
        copies: For each op, the tensors that it reads as padded copies, and those copies.
    """

    def __init__(
        self,
        partition: Partition,
        ops: Sequence[Op],
        rows: Mapping[Op, Lowering],
        pinned: Collection[Tensor] = (),
        lasting: Collection[Tensor] = (),
        turned: Mapping[Tensor, Tensor] | None = None,
    ) -> None:
        """`ops` are those of the partition, and those that control flow in it expands to.

        Tensors that are `lasting` are computed once, for all runs. What is `turned` may be written
        over the variable of a loop, which is pinned.
        """
        self._partition = partition
        self._ops = ops
        self._pinned, self._turned = pinned, turned or {}
        self._rows = rows
        self._readers = _readers(ops)
        self._updated = set() if pinned else updated_operands(ops, self._readers)
        self._living = {} if pinned else living_updates(ops, self._readers)
        in_place = partition.in_place and not pinned
        self._inplace = InPlace(ops, rows, self._readers, lasting) if in_place else None
        self._producers = {t: op for op in ops for t in op.outputs}
        self._requests = self._border_requests()
        self._shared = SharedBuffers(self._inplace.end_of if self._inplace else lambda tensor: 0)
        self._takes_strides: dict[Tensor, bool] = {}
        self.allocations: dict[Tensor, Allocation] = {}
        self.copies: dict[Op, dict[Tensor, Tensor]] = {}
        self._place_callers_buffers()
        self._place_pinned()
        self._place_reshapes_of_outputs()
        self._place_borders()
        self._place_concatenations()
        self._place_rest()

    def shares(self, source: Tensor, target: Tensor) -> bool:
        """Whether both live in one buffer, so that no copy from one to the other is needed."""
        return self.allocations[source].buffer is self.allocations[target].buffer

    def add_temporary(self, name: str, size_bytes: int) -> Tensor:
        """A tensor of bytes in the arena that is no value of the network."""
        tensor = Tensor(name, DType.INT8, (size_bytes,))
        self._place(tensor, self._in_arena(tensor, dense(tensor)))
        return tensor

    def _place(self, tensor: Tensor, allocation: Allocation) -> None:
        self.allocations[tensor] = allocation
        self._shared.add(tensor, allocation.buffer)

    def _place_callers_buffers(self) -> None:
        for space, tensors in (
            ("input", self._partition.read),
            ("output", self._partition.written),
        ):
            for index, tensor in enumerate(tensors):
                buffer = Buffer(tensor.name, space, index, tensor.size_bytes)
                self._place(tensor, Allocation(buffer, dense(tensor)))

    def _place_pinned(self) -> None:
        for tensor in self._pinned:
            if tensor not in self.allocations:
                self._place(tensor, self._in_arena(tensor, dense(tensor)))

    def _place_reshapes_of_outputs(self) -> None:
        """The input of a reshape into the caller's buffer is computed there in the first place."""
        for op in reversed(self._ops):
            source = op.inputs[0] if is_reshape(op) else None
            if source is None or source in self.allocations:
                continue
            allocation = self.allocations.get(op.outputs[0])
            if allocation is not None and source in self._producers:
                self._place(source, Allocation(allocation.buffer, dense(source)))

    def _place_borders(self) -> None:
        for tensor, (border, readers) in self._requests.items():
            if not border and tensor not in self.allocations:
                continue
            if self._can_be_strided(tensor):
                self._place(tensor, self._in_arena(tensor, bordered(tensor, border)))
                continue
            copy = tensor.like(f"{tensor.name} with border")
            for op in readers:
                self.copies.setdefault(op, {})[tensor] = copy
            self._place(copy, self._in_arena(copy, bordered(copy, border)))

    def _border_requests(self) -> dict[Tensor, tuple[Border, set[Op]]]:
        requests: dict[Tensor, tuple[Border, set[Op]]] = {}
        for op, row in self._rows.items():
            for position, border in row.borders(op).items():
                tensor = op.inputs[position]
                if tensor is None or tensor.is_constant:
                    continue
                known, readers = requests.get(tensor, (Border(), set()))
                readers.add(op)
                requests[tensor] = known | border, readers
        return requests

    def _can_be_strided(self, tensor: Tensor) -> bool:
        """Whether producer and all consumers here take any stride, and nobody else looks."""
        producer = self._producers.get(tensor)
        return (
            tensor not in self.allocations
            and producer is not None
            and producer.outputs[0] is tensor
            and self._rows[producer].strided_output
            and self._readers_take_strides(tensor)
        )

    def _readers_take_strides(self, tensor: Tensor) -> bool:
        known = self._takes_strides.get(tensor)
        if known is None:
            readers = self._readers.get(tensor, ())
            known = all(self._rows[op].strided_inputs for op in readers)
            self._takes_strides[tensor] = known
        return known

    def _place_concatenations(self) -> None:
        for op in reversed(self._ops):
            record = find(op.label)
            if record is not None and record.joins is not None:
                self._place_joined(op, record.joins(op))

    def _place_joined(self, op: Op, axis: int) -> None:
        output = op.outputs[0]
        allocation = self.allocations.get(output)
        if allocation is None:
            allocation = self._in_arena(output, dense(output))
            self._place(output, allocation)
        if not allocation.layout.is_dense:
            return
        start, uses = 0, Counter(op.inputs)
        for source in op.inputs:
            if source is None:
                return
            if uses[source] == 1 and self._may_move(source, output):
                self._place_inside(source, allocation, axis, start)
            start += source.static_shape[axis]

    def _may_move(self, source: Tensor, output: Tensor) -> bool:
        same_scale = source.quant is None or source.quant.same_as(output.quant)
        return (
            same_scale
            and self._may_live_in(source, self.allocations[output].buffer)
            and source in self._producers
            and source not in self.allocations
            and not source.is_constant
        )

    def _place_inside(self, source: Tensor, allocation: Allocation, axis: int, start: int) -> None:
        shape = source.static_shape
        outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
        offset = allocation.layout.offset + start * inner
        if outer == 1:
            layout = dense(source).inside(dense(source).channels, offset)
        elif axis == len(shape) - 1 == 3 and self._can_be_strided(source):
            layout = dense(source).inside(allocation.layout.channels, offset)
        else:
            return
        self._place(source, Allocation(allocation.buffer, layout))

    def _place_rest(self) -> None:
        for op in self._ops:
            for number, tensor in enumerate(op.outputs):
                if tensor not in self.allocations:
                    allocation = self._updated_allocation(op, tensor) or self._inplace_allocation(
                        op, tensor
                    )
                    self._place(tensor, allocation or self._shared_or_new(op, number))

    def _updated_allocation(self, op: Op, tensor: Tensor) -> Allocation | None:
        """Where what an op changes lives, if its result may be there."""
        if tensor in self._living:
            return self.allocations[self._living[tensor]]
        if tensor in self._turned:
            return self.allocations[self._turned[tensor]]
        changed = op.inputs[0] if op.inputs else None
        if changed is None or not self._may_be_changed(changed):
            return None
        allocation = self.allocations[changed]
        self._shared.change(changed, allocation.buffer)
        return allocation

    def _may_be_changed(self, tensor: Tensor) -> bool:
        """Whether the only op that reads a tensor may write its result over it.

        The tensor must fill memory of the arena that no other tensor still needs.
        """
        allocation = self.allocations.get(tensor)
        if allocation is None or tensor not in self._updated:
            return False
        alone = self._shared.is_last_of(tensor, allocation.buffer)
        filled = allocation.buffer.space == "arena" and allocation.layout.is_dense
        return tensor in self._living or (filled and alone)

    def _inplace_allocation(self, op: Op, tensor: Tensor) -> Allocation | None:
        """Where an input lives that a result may be written over, element by element."""
        if self._inplace is None:
            return None
        for source in self._inplace.sources(op, tensor):
            allocation = self.allocations[source]
            if self._is_left(allocation, source, self._inplace.position(op)):
                self._shared.change(source, allocation.buffer)
                return allocation
        return None

    def _is_left(self, allocation: Allocation, source: Tensor, position: int) -> bool:
        """Whether a tensor fills a buffer of the arena that nothing else needs from an op on."""
        buffer, layout = allocation
        if buffer.space != "arena" or layout != dense(source):
            return False
        is_over = self._shared.end_of_others(source, buffer) < position
        return buffer.size_bytes == source.size_bytes and is_over

    def _shared_or_new(self, op: Op, number: int) -> Allocation:
        """Where an output lives that is a part of an input; else memory of its own."""
        tensor, view = op.outputs[number], viewed(op, number)
        for found, is_run in ((run_of(view), True), (channels_of(view, tensor), False)):
            if found is None or not (is_run or self._may_be_channels(tensor)):
                continue
            allocation = self._allocation_of(found[0])
            if allocation is None or not self._may_live_in(tensor, allocation.buffer):
                continue
            layout = dense(tensor)
            pixel_stride = layout.channels if is_run else allocation.layout.pixel_stride
            return Allocation(
                allocation.buffer, layout.inside(pixel_stride, allocation.layout.offset + found[1])
            )
        return self._in_arena(tensor, dense(tensor))

    def _allocation_of(self, source: Tensor) -> Allocation | None:
        """Where a tensor is that others may be seen as parts of, or None."""
        allocation = self.allocations.get(source)
        if allocation is None or source in self._pinned or source.is_variable:
            return None
        return allocation if allocation.layout.is_dense else None

    def _may_be_channels(self, tensor: Tensor) -> bool:
        """Whether all consumers take wider pixels, and runs are long or consumers few."""
        rows = [self._rows[op] for op in self._readers.get(tensor, ())]
        takes = (r.strided_inputs if len(tensor.shape) == 4 else r.strided_any_rank for r in rows)
        run = tensor.static_shape[-1] if tensor.shape else 0
        if run == 1 and any(map(_computes_elements, self._readers.get(tensor, ()))):
            return False  # loops over rows of one element cost more than a copy
        run_bytes = run * tensor.dtype.bits // 8
        return all(takes) and (len(rows) <= 2 or run_bytes >= _LONG_RUN_BYTES)

    def _may_live_in(self, tensor: Tensor, buffer: Buffer) -> bool:
        """Whether no consumer asked for a border around a tensor outside the arena."""
        return buffer.space == "arena" or tensor not in self._requests

    def _in_arena(self, tensor: Tensor, layout: Layout) -> Allocation:
        size_bytes = layout.buffer_elements * tensor.dtype.bits // 8
        return Allocation(Buffer(tensor.name, "arena", 0, size_bytes), layout)


def _computes_elements(op: Op) -> bool:
    return op.kind == FUSED_ELEMENTWISE or element_scalar(op) is not None


def _readers(ops: Sequence[Op]) -> dict[Tensor, list[Op]]:
    readers: dict[Tensor, list[Op]] = {}
    for op in ops:
        for tensor in op.inputs:
            if tensor is not None:
                readers.setdefault(tensor, []).append(op)
    return readers
