"""LSTM kinds in float32: all steps in one kernel call, which keeps the states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from circlet.backends.cpu.lower.products.matvec import (
    Blocks,
    Floats,
    blocks_of,
    pack_floats,
    spread_rows,
    whole_registers,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Ref,
    StopRef,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.lstm_float import real_vector
from circlet.ops.lstm_operands import (
    CELL_STATE,
    FORGET,
    OUTPUT_STATE,
    PROJECTION,
    PROJECTION_BIAS,
    Gate,
    LstmAttrs,
    cells,
    gates,
    inputs,
    is_normalised,
    outputs,
    peephole,
    steps_first,
)
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.target.targets import Target

KINDS = ("UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM")
_ACTIVATIONS = {"NONE": 0, "RELU": 1, "RELU6": 2, "TANH": 3}


@dataclass(frozen=True)
class Shape:
    """What the float and the integer kernel share: sizes, strides and blocks.

    `starts` are the elements of input and output that the first step begins at.
    """

    lanes: int
    gate: int
    blocks: Blocks
    projection: Blocks | None
    batches: int
    params: dict[str, ParamValue]
    starts: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Placed:
    """Where a direction's outputs lie: in rows of `width` floats, from the one at `first` on.

    `is_turned` says that it runs against time: from the last step, by negative strides.
    """

    width: int
    first: int = 0
    is_turned: bool = False


def shape_of(op: Op, context: Context, placed: Placed | None = None) -> Shape:
    """Sizes of an op, in the fields of both kernels."""
    lanes = context.vector_bytes // 4
    gate = whole_registers(cells(op), lanes)
    blocks = blocks_of(gate * len(gates(op)), lanes)
    projection = None if op.input(PROJECTION) is None else blocks_of(outputs(op), lanes)
    batches, steps, strides = _time(op)
    width = outputs(op) if placed is None else placed.width
    turn = -1 if placed is not None and placed.is_turned else 1
    params: dict[str, ParamValue] = {
        "steps": steps,
        "inputs": inputs(op),
        "cells": cells(op),
        "outputs": outputs(op),
        "gate": gate,
        "gate_blocks": blocks.count,
        "projection_blocks": projection.count if projection else 0,
        "in_batch": strides[0] * inputs(op),
        "in_step": turn * strides[1] * inputs(op),
        "out_batch": strides[0] * width,
        "out_step": turn * strides[1] * width,
    }
    named = {f"size_{name}": value for name, value in params.items()}
    last = (steps - 1) * strides[1] if turn < 0 else 0
    starts = last * inputs(op), last * width + (placed.first if placed else 0)
    return Shape(lanes, gate, blocks, projection, batches, named, starts)


def _time(op: Op) -> tuple[int, int, tuple[int, int]]:
    """Batches, steps, and how many vectors apart batches and steps are."""
    sizes = operand(op, 0).static_shape
    if len(sizes) == 2:
        return sizes[0], 1, (1, 0)
    if steps_first(op):
        return sizes[1], sizes[0], (1, sizes[1])
    return sizes[0], sizes[1], (sizes[1], 1)


def array(op: Op, position: int) -> np.ndarray:
    """The elements of a constant operand."""
    return np.asarray(operand(op, position).data)


def flags(op: Op) -> tuple[int, int]:
    """Whether gates have peepholes, and whether they are normalised."""
    return int(peephole(op, FORGET) is not None), int(is_normalised(op))


def _tables(op: Op, gate: int) -> np.ndarray:
    """Rows of the kernels' `tables`: per gate peephole, norm coefficients, bias after the norm."""
    empty = np.zeros(cells(op), array(op, FORGET.bias).dtype)
    rows = []
    for one in gates(op):
        position = peephole(op, one)
        rows.append(empty if position is None else _peephole(op, position, empty.dtype))
        normed = is_normalised(op)
        rows.append(array(op, one.norm).astype(empty.dtype) if normed else empty)
        rows.append(array(op, one.bias) if normed else empty)
    return spread_rows(rows, gate)


def _peephole(op: Op, position: int, dtype: np.dtype[np.generic]) -> np.ndarray:
    values = array(op, position)
    return real_vector(op, position, values) if dtype == np.float32 else values.astype(dtype)


def why_no_lstm(op: Op, dtype: DType) -> str | None:
    """Why no kernel of a type takes an op."""
    data = operand(op, 0)
    if data.dtype is not dtype:
        return f"does not take {data.dtype.name}"
    if data.is_constant:
        return "constant input"
    return "a size is 0" if data.elements == 0 else None


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, FORGET.weights).dtype is not DType.FLOAT32:
        return "does not take 8-bit weights"
    return why_no_lstm(op, DType.FLOAT32)


def _gate_weights(op: Op, gate: Gate) -> Floats:
    # Input and state side by side: a step has one product over both.
    return np.concatenate([array(op, gate.weights), array(op, gate.recurrent)], axis=1)


def _packed_gates(op: Op, shape: Shape, context: Context) -> ConstantRef:
    weights = spread_rows([_gate_weights(op, gate) for gate in gates(op)], shape.gate)
    bias = spread_rows([array(op, gate.bias) for gate in gates(op)], shape.gate)
    kept = np.zeros_like(bias) if is_normalised(op) else bias  # with a norm it comes later
    return context.constant(pack_floats(weights, kept, shape.blocks))


def _packed_projection(op: Op, shape: Shape, context: Context) -> Ref:
    if shape.projection is None:
        return NoRef()
    packed = pack_floats(array(op, PROJECTION), projection_bias(op), shape.projection)
    return context.constant(packed)


def _clip_of(most: float) -> float:
    """The largest magnitude that an attribute allows, infinity where it names none."""
    limit = float(np.float32(most))
    return limit if limit > 0 else inf


def float_params(op: Op, shape: Shape) -> tuple[dict[str, ParamValue], int]:
    """The fields of `struct lstm_f32_params`, and the floats of scratch memory that they mark."""
    projected = shape.blocks.slots + shape.gate
    slots = projected + (shape.projection.slots if shape.projection else 0)
    attrs = op.attributes(LstmAttrs)
    own: dict[str, ParamValue] = {
        "hidden": shape.blocks.slots,
        "projected": projected,
        "cell_clip": _clip_of(attrs.cell_clip),
        "projection_clip": _clip_of(attrs.proj_clip) if shape.projection else inf,
    }
    return shape.params | own, slots


def projection_bias(op: Op) -> Floats:
    """What is added to the projection."""
    given = op.input(PROJECTION_BIAS)
    return np.zeros(outputs(op), np.float32) if given is None else np.asarray(given.data)


def float_arguments(op: Op, shape: Shape) -> tuple[int, ...]:
    """What float kernels are specialised for."""
    return (
        shape.blocks.vectors,
        shape.projection.vectors if shape.projection else 0,
        len(gates(op)) - 3,
        _ACTIVATIONS[activation_of(op)],
        *flags(op),
    )


def table_ref(op: Op, shape: Shape, context: Context, dtype: type = np.float32) -> Ref:
    """The kernels' `tables`, if a gate has a peephole or a norm."""
    if not any(flags(op)):
        return NoRef()
    return context.constant(_tables(op, shape.gate).astype(dtype))


def call_lstm(
    op: Op,
    context: Context,
    shape: Shape,
    kernel: Kernel,
    params: dict[str, ParamValue],
    products: Sequence[Ref],
    behind: Sequence[Ref],
    scratch_bytes: int,
) -> None:
    """Append a kernel's call over input, products, output, states, those behind, and its stop."""
    states = operand(op, OUTPUT_STATE), operand(op, CELL_STATE)
    written = (op.outputs[0], *states)
    source, result = operand(op, 0), TensorRef(op.outputs[0], shape.starts[1])
    kept = map(TensorRef, states)
    data = TensorRef(source, shape.starts[0])
    operands = (data, *products, result, *kept, *behind, StopRef())
    context.call(
        op, kernel, params, operands, written, tasks=shape.batches, scratch_bytes=scratch_bytes
    )


def lower_float(op: Op, context: Context, placed: Placed | None = None) -> None:
    """Append the call of an LSTM over float weights."""
    shape = shape_of(op, context, placed)
    params, slots = float_params(op, shape)
    kernel = Kernel("lstm.h", "lstm_f32", float_arguments(op, shape))
    products = (_packed_gates(op, shape, context),)
    behind = (table_ref(op, shape, context), _packed_projection(op, shape, context))
    call_lstm(op, context, shape, kernel, params, products, behind, 4 * slots)


for _kind in KINDS:
    LOWERINGS.add(Lowering(_kind, f"{_kind.lower()}_f32", _refuses, lower_float))
