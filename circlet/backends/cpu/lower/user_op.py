"""Custom operators with C of their user: one call of one function, on dense arrays."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    Ref,
    TensorRef,
)
from circlet.ir import Op, Tensor
from circlet.ops import CFunction, find
from circlet.ops.user import UserAttrs
from circlet.target.targets import Target

_MOST_OPERANDS = 24


def row_of_user(kind: str) -> Lowering | None:
    """The row that runs an operator of a user through the C of its record, if it has any."""
    record = find(kind)
    return None if record is None or record.c_function is None else _row(kind, record.c_function)


@lru_cache(maxsize=256)
def _row(kind: str, function: CFunction) -> Lowering:
    kernel = Kernel("user_op.h", "user_op", (function.name,), function.source)

    def lower(op: Op, context: Context) -> None:
        _lower(op, context, kernel)

    return Lowering(kind, f"user_{function.name}", _refuses, lower)


def _refuses(op: Op, target: Target) -> str | None:
    operands = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if len(op.inputs) + len(op.outputs) > _MOST_OPERANDS:
        return f"more than {_MOST_OPERANDS} inputs and outputs"
    if any(not tensor.dtype.has_numpy for tensor in operands):
        return "elements are not whole bytes"
    if any(None in tensor.shape for tensor in operands):
        return "a size is not known before the run"
    return None


def _lower(op: Op, context: Context, kernel: Kernel) -> None:
    options = op.attrs.custom if isinstance(op.attrs, UserAttrs) else b""
    packed = context.constant(np.frombuffer(options, np.uint8)) if options else NoRef()
    sizes = [0 if tensor is None else tensor.elements for tensor in (*op.inputs, *op.outputs)]
    params = {
        "inputs": len(op.inputs),
        "outputs": len(op.outputs),
        "options_bytes": len(options),
        "elements": sizes + [0] * (_MOST_OPERANDS - len(sizes)),
    }
    operands = [_input(tensor, context) for tensor in op.inputs]
    operands += [TensorRef(tensor) for tensor in op.outputs]
    context.call(op, kernel, params, [*operands, packed], op.outputs)  # type: ignore[arg-type]


def _input(tensor: Tensor | None, context: Context) -> Ref:
    return NoRef() if tensor is None else source_ref(context, tensor)


LOWERINGS.row_of_user = row_of_user
