"""Which DYNAMIC_UPDATE_SLICE ops may write where their operand lives, so that it is not copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.ir import Op, Tensor

_UPDATE, _READ, _ASSIGN = "DYNAMIC_UPDATE_SLICE", "READ_VARIABLE", "ASSIGN_VARIABLE"


def updated_operands(readers: Mapping[Tensor, Sequence[Op]]) -> set[Tensor]:
    """Tensors that nothing but one update reads: their old elements are not missed.

    Holds for ops that run once each, in order.
    """
    return {t for t, ops in readers.items() if len(ops) == 1 and _updates(ops[0], t)}


def living_updates(
    ops: Sequence[Op], readers: Mapping[Tensor, Sequence[Op]]
) -> dict[Tensor, Tensor]:
    """Variables that one update changes between being read and assigned.

    Returns what is read of each, and the variable: `v = ASSIGN(v, UPDATE(READ(v), ...))`.
    """
    updated = updated_operands(readers)
    reads = [op for op in ops if op.kind == _READ and op.outputs[0] in updated]
    found = ((op.outputs[0], op.inputs[0]) for op in reads)
    return {value: v for value, v in found if v is not None and _returns(value, v, readers)}


def _updates(op: Op, tensor: Tensor) -> bool:
    return op.kind == _UPDATE and op.inputs[0] is tensor


def _returns(value: Tensor, variable: Tensor, readers: Mapping[Tensor, Sequence[Op]]) -> bool:
    """Whether the variable is used twice only: read, and assigned what the update made of it."""
    kinds = [op.kind for op in readers[variable]]
    if sorted(kinds) != [_ASSIGN, _READ]:
        return False
    (update,) = readers[value]
    assign = readers[variable][kinds.index(_ASSIGN)]
    return assign.inputs[1] is update.outputs[0]
