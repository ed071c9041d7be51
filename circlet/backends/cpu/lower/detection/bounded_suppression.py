"""ONNX's non-maximum suppression as one kernel call, over boxes that a run counts."""

from __future__ import annotations

from circlet.backends.cpu.lower.bounded.counts import ref_or_none
from circlet.backends.cpu.lower.copy import not_copyable
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    StopRef,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.bounded import SUPPRESSION
from circlet.ops.onnx.record import attributes
from circlet.ops.operands import operand
from circlet.target.targets import Target

_LANES = 16  # of the widest vectors
_NUMBERS_OF_BOX = 9  # that bounded_suppression.h takes of the scratch memory, of 4 bytes each
_WANTED = (DType.FLOAT32, DType.FLOAT32, DType.INT64, DType.FLOAT32, DType.FLOAT32)


def _refuses(op: Op, target: Target) -> str | None:
    for tensor, wanted in zip(op.inputs, _WANTED, strict=False):
        if tensor is not None and tensor.dtype is not wanted:
            return f"does not take {tensor.dtype.name}"
    tensors = (operand(op, 0), operand(op, 1), op.outputs[0])
    return next((reason for t in tensors if (reason := not_copyable(t))), None)


def _lower(op: Op, context: Context) -> None:
    (batches, classes, boxes), result = operand(op, 1).static_shape, op.outputs[0]
    params: dict[str, ParamValue] = {
        "batches": batches,
        "classes": classes,
        "boxes": boxes,
        "kept": result.static_shape[0] // (batches * classes),
    }
    sources = [ref_or_none(context, tensor) for tensor in op.inputs]
    operands = [*sources, *map(TensorRef, op.outputs), StopRef()]
    is_centred = int(attributes(op).get("center_point_box", 0))
    kernel = Kernel("bounded_suppression.h", "bounded_suppression", (is_centred,))
    scratch = _NUMBERS_OF_BOX * 4 * (boxes + _LANES)
    context.call(op, kernel, params, operands, op.outputs, scratch_bytes=scratch)


LOWERINGS.add(Lowering(SUPPRESSION, "bounded_suppression", _refuses, _lower))
