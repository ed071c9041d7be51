"""RFFT2D over single rows, and COMPLEX_ABS."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops.fft import transform_lengths
from circlet.ops.operands import operand
from circlet.target.targets import Target

_MOST_LENGTH = 1 << 15
_TASK_ELEMENTS = 1 << 13


def _refuses(op: Op, target: Target) -> str | None:
    lengths, source = transform_lengths(op), operand(op, 0)
    if lengths is None:
        return "the lengths are not constant"
    if lengths[0] != 1 or source.static_shape[-2] < 1:
        return "more than one row of each plane is transformed"
    if not 2 <= lengths[1] <= _MOST_LENGTH:
        return f"rows are shorter than 2 or longer than {_MOST_LENGTH}"
    if source.static_shape[-2] != 1:
        return "planes have more rows than are transformed"
    return "a size is 0" if source.elements == 0 else None


def _lower(op: Op, context: Context) -> None:
    source, result, lengths = operand(op, 0), op.outputs[0], transform_lengths(op)
    assert lengths is not None
    length, width = lengths[1], source.static_shape[-1]
    angle = 2 * np.pi * np.arange(length // 2 + 1) / length
    twiddles = np.stack([np.cos(angle), np.sin(angle)], axis=-1).astype(np.float32)
    rows = source.elements // width
    params: dict[str, ParamValue] = {
        "rows": rows,
        "width": width,
        "used": min(width, length),
        "length": length,
        "bits": (length // 2).bit_length() - 1,
    }
    operands = (source_ref(context, source), context.constant(twiddles), TensorRef(result))
    context.call(
        op,
        Kernel("fft.h", "rfft"),
        params,
        operands,
        (result,),
        tasks=-(-rows // (context.vector_bytes // 4)),
        scratch_bytes=length * context.vector_bytes,
    )


def _refuses_empty(op: Op, target: Target) -> str | None:
    return "a size is 0" if op.outputs[0].elements == 0 else None


def _lower_part(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    part = op.kind if op.kind == "COMPLEX_ABS" else f"COMPLEX_{op.kind}"
    context.call(
        op,
        Kernel("fft.h", "complex_part", (part,)),
        {"count": result.elements, "per_task": _TASK_ELEMENTS},
        (source_ref(context, source), TensorRef(result)),
        (result,),
        tasks=-(-result.elements // _TASK_ELEMENTS),
    )


LOWERINGS.add(Lowering("RFFT2D", "rfft_rows", _refuses, _lower))
for _kind in ("COMPLEX_ABS", "REAL", "IMAG"):
    LOWERINGS.add(Lowering(_kind, _kind.lower(), _refuses_empty, _lower_part))
