"""Which ops may update an operand where it lives, so that it is not copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.ir import Op, Tensor
from circlet.ops import Effects, find


def updated_operands(ops: Sequence[Op], readers: Mapping[Tensor, Sequence[Op]]) -> set[Tensor]:
    """Tensors that nothing but one update reads: their old elements are not missed.

    Holds for ops that run once each, in order.
    """
    changed = ((op, _changed(op)) for op in ops)
    return {tensor for op, tensor in changed if tensor is not None and readers[tensor] == [op]}


def living_updates(
    ops: Sequence[Op], readers: Mapping[Tensor, Sequence[Op]]
) -> dict[Tensor, Tensor]:
    """Variables that one update changes between being read and assigned.

    Returns what is read of each, and the variable: `v = ASSIGN(v, UPDATE(READ(v), ...))`.
    """
    updated = updated_operands(ops, readers)
    if not updated:
        return {}
    reads = [op for op in ops if _has(op, Effects.READS_VARIABLE) and op.outputs[0] in updated]
    found = ((op.outputs[0], op.inputs[0]) for op in reads)
    return {value: v for value, v in found if v is not None and _returns(value, v, readers)}


def turn_updates(loop: Op) -> dict[Tensor, Tensor]:
    """Results of a loop's body that update a variable, and the variable, which each may overwrite.

    The update is the last to read the variable in a turn, and no other one takes over what it was.
    """
    body = loop.regions[1]
    last_reader = {tensor: op for op in body.ops for tensor in op.inputs if tensor is not None}
    producers, given = body.producers(), [*body.inputs]
    kept = {*body.outputs}
    return {
        result: variable
        for variable, result in zip(given, body.outputs, strict=True)
        if variable not in kept
        and result in producers
        and _changed(producers[result]) is variable
        and last_reader[variable] is producers[result]
        and producers[result].inputs.count(variable) == 1
    }


def updates_first(op: Op) -> bool:
    """Whether an op does nothing but update its first operand."""
    changed = _changed(op)
    return changed is not None and changed is op.inputs[0]


def _changed(op: Op) -> Tensor | None:
    """The operand that an op does nothing but update."""
    record = find(op.label)
    if record is None or not record.continues or len(op.outputs) != 1:
        return None
    ((_, source),) = record.continues
    return op.input(source)


def _has(op: Op, effects: Effects) -> bool:
    record = find(op.label)
    return record is not None and record.effects is effects


def _returns(value: Tensor, variable: Tensor, readers: Mapping[Tensor, Sequence[Op]]) -> bool:
    """Whether the variable is used twice only: read, and assigned what the update made of it."""
    users = readers[variable]
    if len(users) != 2:
        return False
    reads = [op for op in users if _has(op, Effects.READS_VARIABLE)]
    writes = [op for op in users if _has(op, Effects.WRITES_VARIABLE)]
    if not len(reads) == len(writes) == 1:
        return False
    (update,) = readers[value]
    return writes[0].inputs[1] is update.outputs[0]
