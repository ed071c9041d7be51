"""SignalRfft and SignalIrfft of integers."""

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
from circlet.ir import DType, Op
from circlet.ops.operands import operand
from circlet.ops.signal.fixed_fft import FixedPoint, circle, radices_of, super_roots
from circlet.ops.signal.record import rows_of
from circlet.ops.signal.spectrum import FftAttrs
from circlet.target.targets import Target

_MOST_LENGTH = 1 << 15
_STAGES = 16
_COMPLEX_BYTES = 16


def _refuses(op: Op, target: Target) -> str | None:
    source = operand(op, 0)
    if source.dtype is DType.FLOAT32:
        return "floats are not transformed here"
    if op.attributes(FftAttrs).fft_length > _MOST_LENGTH:
        return f"rows are longer than {_MOST_LENGTH}"
    return "a size is 0" if source.elements == 0 else None


def _order(places: np.ndarray, radices: tuple[int, ...]) -> np.ndarray:
    """The elements in the order in which the innermost stage wants them."""
    if not radices:
        return places
    radix, rest = radices[0], radices[1:]
    return np.concatenate([_order(places[first::radix], rest) for first in range(radix)])


def _lower(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    inverse, half = op.label.endswith("Irfft"), op.attributes(FftAttrs).fft_length // 2
    point = FixedPoint(15 if source.dtype is DType.INT16 else 31)
    radices = radices_of(half) or ()
    tables = (
        _order(np.arange(half), radices),
        np.stack(circle(half, point, inverse=inverse), axis=-1),
        np.stack(super_roots(half, point, inverse=inverse), axis=-1),
    )
    params: dict[str, ParamValue] = {
        "width": source.static_shape[-1],
        "half": half,
        "stages": len(radices),
        "radices": [*reversed(radices), *[1] * (_STAGES - len(radices))],
    }
    constants = (context.constant(table.astype(np.int32)) for table in tables)
    context.call(
        op,
        Kernel("fixed_fft.h", "fixed_fft", (point.bits, int(inverse))),
        params,
        (source_ref(context, source), *constants, TensorRef(result)),
        (result,),
        tasks=rows_of(source),
        scratch_bytes=2 * _COMPLEX_BYTES * half,
    )


LOWERINGS.add(Lowering("CUSTOM:SignalRfft", "fixed_rfft", _refuses, _lower))
LOWERINGS.add(Lowering("CUSTOM:SignalIrfft", "fixed_irfft", _refuses, _lower))
