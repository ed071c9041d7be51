"""Which tensors are the same in every run."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from circlet.ir import Op, Tensor
from circlet.ops.opdef import is_pure


def lasting(ops: Iterable[Op], inside: Collection[Op] = ()) -> set[Tensor]:
    """Tensors that pure ops outside of control flow make of constants alone.

    Args:
        ops: In order of execution.
        inside: Those of them that stand inside of control flow.
    """
    found: set[Tensor] = set()
    for op in ops:
        given = all(t is None or t.is_constant or t in found for t in op.inputs)
        if given and op not in inside and is_pure(op) and not _has_variable(op):
            found.update(op.outputs)
    return found


def _has_variable(op: Op) -> bool:
    return any(tensor is not None and tensor.is_variable for tensor in (*op.inputs, *op.outputs))
