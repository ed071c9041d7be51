"""SOFTMAX and LOG_SOFTMAX of dense rows.

The powers of 8-bit differences become tables.
"""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Rank,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops import gemmlowp, softmax16
from circlet.ops.operands import limits, operand, scale_of, zero_of
from circlet.ops.requantize import rounding_divide_by_pot
from circlet.ops.softmax import SoftmaxAttrs, exponent_params, int16_factor
from circlet.target.targets import Target

_TASK_ELEMENTS = 1 << 12
_SUM_INTEGER_BITS = 12
_MOST_TERMS = 1 << _SUM_INTEGER_BITS
_MOST_WIDE_TERMS = 1 << 15  # of 15 bits each: sums fit 30


def _refuses(op: Op, target: Target) -> str | None:
    return "a size is 0" if op.outputs[0].elements == 0 else None


def _refuses_float(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype != DType.FLOAT32:
        return f"does not take {operand(op, 0).dtype.name}"
    if isinstance(op.attrs, SoftmaxAttrs) and op.attrs.beta < 0:
        return "the factor of the exponent is negative"
    return _refuses(op, target)


def _refuses_stored(op: Op, target: Target) -> str | None:
    source = operand(op, 0)
    if source.dtype not in (DType.INT8, DType.UINT8):
        return f"does not take {source.dtype.name}"
    if source.static_shape[-1] >= _MOST_TERMS:
        return f"a row has {_MOST_TERMS} elements or more"
    return _refuses(op, target)


def _row_params(op: Op) -> tuple[dict[str, ParamValue], int]:
    source = operand(op, 0)
    count = source.static_shape[-1]
    rows = source.elements // count
    rows_per_task = max(1, _TASK_ELEMENTS // count)
    params: dict[str, ParamValue] = {"rows": rows, "rows_per_task": rows_per_task, "count": count}
    return params, -(-rows // rows_per_task)


def _lower_float(op: Op, context: Context) -> None:
    result = op.outputs[0]
    params, tasks = _row_params(op)
    if isinstance(op.attrs, SoftmaxAttrs):
        params["beta"] = float(np.float32(op.attrs.beta))
    kernel = Kernel("softmax_f32.h", f"{op.kind.lower()}_f32")
    operands = (source_ref(context, operand(op, 0)), TensorRef(result))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def power_tables(op: Op) -> tuple[np.ndarray, np.ndarray]:
    """Powers and sum terms of the differences 0, -1, ... -255: 0 behind the last that counts."""
    mantissa, shift, smallest = exponent_params(op)
    kept = min(255, -smallest)
    diff = -np.minimum(np.arange(256, dtype=np.int64), kept)
    scaled = gemmlowp.high_mul(gemmlowp.wrap(diff << shift), np.int64(mantissa))
    powers = gemmlowp.exp_on_negative(scaled)
    terms = rounding_divide_by_pot(powers, _SUM_INTEGER_BITS)
    powers[kept + 1 :] = terms[kept + 1 :] = 0
    return powers.astype(np.int32), terms.astype(np.int32)


def _packed_powers(op: Op) -> tuple[tuple[np.ndarray, ...], bool]:
    """The tables, and whether no power is greater than that of a smaller difference."""
    powers, terms = power_tables(op)
    return (powers, terms), bool((np.diff(powers) <= 0).all())


def _lower_stored(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    packed = context.packed(op, "softmax powers", lambda: _packed_powers(op))
    params, tasks = _row_params(op)
    params["falls"] = int(packed.fact)
    params["low"] = limits(result.dtype)[0]
    operands = (source_ref(context, source), TensorRef(result), *packed.refs)
    flip = 128 if source.dtype == DType.INT8 else 0
    kernel = Kernel("softmax.h", "softmax_q8", (flip, result.dtype.bits))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _refuses_wide(op: Op, target: Target) -> str | None:
    source = operand(op, 0)
    if source.dtype != DType.INT16:
        return f"does not take {source.dtype.name}"
    if source.static_shape[-1] > _MOST_WIDE_TERMS:
        return f"a row has more than {_MOST_WIDE_TERMS} elements"
    return _refuses(op, target)


def _packed_wide(op: Op) -> tuple[tuple[np.ndarray, ...], int]:
    """Powers of differences up to the last that has its own, and the table of reciprocals."""
    powers = softmax16.powers(int16_factor(op)).astype(np.int16)
    last = int(np.flatnonzero(powers != powers[-1])[-1]) + 1 if powers[0] != powers[-1] else 0
    return (powers[: last + 1], softmax16.reciprocals()), last


def _lower_wide(op: Op, context: Context) -> None:
    result = op.outputs[0]
    packed = context.packed(op, "softmax powers", lambda: _packed_wide(op))
    params, tasks = _row_params(op)
    params["last"] = packed.fact
    operands = (source_ref(context, operand(op, 0)), TensorRef(result), *packed.refs)
    context.call(op, Kernel("softmax16.h", "softmax_q16"), params, operands, (result,), tasks=tasks)


def _refuses_log_stored(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype not in (DType.INT8, DType.UINT8):
        return f"does not take {operand(op, 0).dtype.name}"
    return _refuses(op, target)


def _lower_log_stored(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    params, tasks = _row_params(op)
    params |= {"scale": scale_of(source), "result_scale": scale_of(result)}
    flip = 128 if source.dtype == DType.INT8 else 0
    params["zero"] = float(zero_of(result) + flip)
    powers = context.constant(np.exp(-np.arange(256) * scale_of(source)))
    operands = (source_ref(context, source), TensorRef(result), powers)
    kernel = Kernel("softmax.h", "log_softmax_q8", (flip,))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


LOWERINGS.add(Lowering("SOFTMAX", "softmax_f32", _refuses_float, _lower_float))
LOWERINGS.add(Lowering("SOFTMAX", "softmax_q8", _refuses_stored, _lower_stored, rank=Rank.INT8))
LOWERINGS.add(Lowering("SOFTMAX", "softmax_q16", _refuses_wide, _lower_wide, rank=Rank.INT16))
LOWERINGS.add(Lowering("LOG_SOFTMAX", "log_softmax_f32", _refuses_float, _lower_float))
LOWERINGS.add(
    Lowering(
        "LOG_SOFTMAX", "log_softmax_q8", _refuses_log_stored, _lower_log_stored, rank=Rank.INT8
    )
)
