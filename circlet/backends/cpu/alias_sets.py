"""Which tensors share a buffer, found from steps and ops alone, for the validator of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.backends.cpu.storage import Allocation, Buffer
from circlet.ir import Op, Tensor
from circlet.ops import Effects, find
from circlet.plan.validate import Alias

_VARIABLES = (Effects.READS_VARIABLE, Effects.WRITES_VARIABLE)


def aliases_of(
    ops: Sequence[Op], allocations: Mapping[Tensor, Allocation], touched: Sequence[Sequence[Tensor]]
) -> list[Alias]:
    """Tensors that are not alone in their buffers; `touched` are those of each step."""
    lives: dict[Tensor, list[int]] = {}
    for step, tensors in enumerate(touched):
        for tensor in tensors:
            lives.setdefault(tensor, [step, step])[1] = step
    buffers: dict[Buffer, list[Tensor]] = {}
    for tensor in lives:
        buffers.setdefault(allocations[tensor].buffer, []).append(tensor)
    shared = {buffer: number for number, (buffer, who) in enumerate(buffers.items()) if who[1:]}
    families = _families(ops, allocations) if shared else {}
    return [
        Alias(
            tensor.name,
            number,
            _place(tensor, allocations[tensor]),
            first=lives[tensor][0],
            last=lives[tensor][1],
            family=id(_root(families, tensor)),
        )
        for buffer, number in shared.items()
        for tensor in buffers[buffer]
    ]


def _place(tensor: Tensor, allocation: Allocation) -> tuple[int, ...]:
    """Where each element of a tensor is: equal for tensors that fill the same bytes alike."""
    layout = allocation.layout
    sizes = layout.batch, layout.height, layout.width, layout.channels
    strides = layout.batch_stride, layout.row_stride, layout.pixel_stride
    return (tensor.dtype.bits, layout.offset, *sizes, *strides)


def _families(ops: Sequence[Op], allocations: Mapping[Tensor, Allocation]) -> dict[Tensor, Tensor]:
    """Each tensor's way to the one that stands for all that are parts of one another."""
    parents: dict[Tensor, Tensor] = {}
    for op in ops:
        if not _holds_inputs(op):
            continue
        by_buffer: dict[Buffer, Tensor] = {}
        for tensor in (*op.inputs, *op.outputs):
            if tensor is None or tensor not in allocations:
                continue
            first = by_buffer.setdefault(allocations[tensor].buffer, tensor)
            one, other = _root(parents, first), _root(parents, tensor)
            if one is not other:
                parents[other] = one
    return parents


def _holds_inputs(op: Op) -> bool:
    """Whether results, or variables that are written, hold elements of operands."""
    record = find(op.label)
    if record is None:
        return False
    moves = record.view is not None or record.joins is not None
    return moves or bool(record.continues) or record.effects in _VARIABLES


def _root(parents: dict[Tensor, Tensor], tensor: Tensor) -> Tensor:
    """Where a tensor's way ends; ways are halved as they are gone."""
    while (parent := parents.get(tensor)) is not None:
        above = parents.get(parent)
        if above is None:
            return parent
        parents[tensor] = tensor = above
    return tensor
