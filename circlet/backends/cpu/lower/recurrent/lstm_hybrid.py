"""LSTM kinds of float values with 8-bit weights: all steps in one kernel call."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.abi import LINE_BYTES, align
from circlet.backends.cpu.lower.products.matvec import spread_rows
from circlet.backends.cpu.lower.recurrent.hybrid import packed_matrix
from circlet.backends.cpu.lower.recurrent.lstm import (
    KINDS,
    Placed,
    Shape,
    array,
    call_lstm,
    float_arguments,
    float_params,
    projection_bias,
    shape_of,
    table_ref,
    why_no_lstm,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
)
from circlet.ir import DType, Op
from circlet.ops.lstm_operands import (
    OUTPUT,
    PROJECTION,
    LstmAttrs,
    cells,
    gates,
    inputs,
    is_normalised,
    outputs,
)
from circlet.ops.operands import operand
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, OUTPUT.weights).dtype is DType.FLOAT32:
        return "does not take float weights"
    return why_no_lstm(op, DType.FLOAT32)


def _gate_bias(op: Op, shape: Shape, context: Context) -> Ref:
    rows = [array(op, gate.bias) for gate in gates(op)]
    kept = [np.zeros_like(row) for row in rows] if is_normalised(op) else rows
    bias = spread_rows(kept, shape.gate)
    return context.constant(np.pad(bias, (0, shape.blocks.slots - bias.size)))


def _projection(op: Op, shape: Shape, context: Context) -> tuple[Ref, Ref, Ref]:
    if shape.projection is None:
        return NoRef(), NoRef(), NoRef()
    bias = projection_bias(op)
    padded = context.constant(np.pad(bias, (0, shape.projection.slots - bias.size)))
    return *packed_matrix(op, [PROJECTION], outputs(op), shape.projection, context), padded


def lower_hybrid(op: Op, context: Context, placed: Placed | None = None) -> None:
    """Append the call of an LSTM over 8-bit weights."""
    shape = shape_of(op, context, placed)
    floats, slots = float_params(op, shape)
    start = align(4 * slots, LINE_BYTES)
    params: dict[str, ParamValue] = {
        "quantised": start,
        "asymmetric": int(op.attributes(LstmAttrs).asymmetric_quantize_inputs),
    }
    params |= {f"floats_{name}": value for name, value in floats.items()}
    kernel = Kernel("lstm_hybrid.h", "lstm_hybrid", float_arguments(op, shape))
    products = (
        *packed_matrix(op, [g.weights for g in gates(op)], shape.gate, shape.blocks, context),
        *packed_matrix(op, [g.recurrent for g in gates(op)], shape.gate, shape.blocks, context),
        _gate_bias(op, shape, context),
    )
    behind = (table_ref(op, shape, context), *_projection(op, shape, context))
    scratch_bytes = start + max(inputs(op), outputs(op), cells(op)) + 64
    call_lstm(op, context, shape, kernel, params, products, behind, scratch_bytes)


for _kind in KINDS:
    LOWERINGS.add(
        Lowering(_kind, f"{_kind.lower()}_hybrid", _refuses, lower_hybrid, rank=Rank.HYBRID)
    )
