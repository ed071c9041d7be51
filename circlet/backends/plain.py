"""Which ops a backend can run outside the session that they came from."""

from __future__ import annotations

from circlet.ir import Op
from circlet.ops import unsupported_reason
from circlet.ops.opdef import is_pure


def why_not_plain(op: Op) -> str | None:
    """Why an op is no function of arrays of fixed sizes alone, in a clause; None if it is one."""
    reason = unsupported_reason(op)
    if reason is not None:
        return reason
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if any(None in tensor.shape or not tensor.has_rank for tensor in tensors):
        return "a shape depends on the data of a run"
    if op.regions or not is_pure(op) or any(tensor.is_variable for tensor in tensors):
        return "control flow and state stay with their session"
    if any(not tensor.elements for tensor in tensors):
        return "a tensor has no elements"
    return None
