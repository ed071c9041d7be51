"""Operations that have records of their own."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.ops.nnapi.record import PREFIX, Scalar, scalars


def own(call: Call, tensors: int, outputs: int, **values: Scalar) -> None:
    """Make the op of the record of the same name, over the first tensors of an operation."""
    inputs = [call[index] for index in range(tensors)]
    made = [call.output(index) for index in range(outputs)]
    call.many(f"CUSTOM:{PREFIX}{call.kind}", inputs, made, scalars(**values))
