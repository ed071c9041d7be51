"""Layers of recurrent cells in float32: one product over all steps, then the steps in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np

from circlet.backends.cpu.lower.floats.epilogue import FloatEpilogue
from circlet.backends.cpu.lower.floats.float_matrix import call_conv_f32
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES, registers_of
from circlet.backends.cpu.lower.products.matvec import (
    MOST_VECTORS,
    Blocks,
    Floats,
    blocks_of,
    pack_floats,
    spread_rows,
    whole_registers,
)
from circlet.backends.cpu.lower.products.product import View, of_rows
from circlet.backends.cpu.lower.recurrent.stored import (
    STORED_ROWS,
    Stored,
    call_input_products,
    state_constants,
)
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    Context,
    Kernel,
    NoRef,
    ParamValue,
    Ref,
    StopRef,
    TensorRef,
)
from circlet.ir import Op, Tensor

ACTIVATIONS = {"NONE": 0, "RELU": 1, "RELU6": 2, "TANH": 3}
HARD_GATES = 8  # beside one of these
GATES = {"PLAIN": 1, "GRU": 3, "GRU_AFTER": 3, "LSTM": 4}
_RESET = "GRU"
_CANDIDATE = 2
_MOST_TOGETHER = 4


@dataclass(frozen=True)
class Weights:
    """Constants of a layer, gates in the order of `recurrent_f32.h`.

    Attributes:
        inputs: [directions, gates, hidden, inputs].
        states: [directions, gates, hidden, hidden].
        input_bias: [directions, gates, hidden], added to the products with the input.
        state_bias: The same for those with the state.
        peepholes: [directions, 3, hidden] of the gates input, forget and output, or None.
        aux: [directions, gates, hidden, width] of an auxiliary input, or None.
    """

    inputs: Floats
    states: Floats
    input_bias: Floats
    state_bias: Floats
    peepholes: Floats | None = None
    aux: Floats | None = None


@dataclass(frozen=True)
class Strides:
    """Where neighbours lie: rows of the input between elements of the batch, and between steps;
    floats of outputs and of states."""

    in_batch: int
    in_step: int
    out_batch: int
    out_step: int
    out_direction: int
    state_batch: int
    state_direction: int


@dataclass(frozen=True)
class Cells:
    """A layer of cells as the kernel computes it.

    Attributes:
        kind: One of `GATES`; "GRU_AFTER" multiplies the state with weights before it is reset.
        turned: Of each direction, whether it runs backwards.
        batches, steps, hidden: Sizes.
        strides: Where vectors lie.
        weights: Gives the constants.
        activation: Of cells and candidates, one of `ACTIVATIONS`.
        hard_gates: Slope and offset of the line within 0 and 1 that gates go through, or None for
            the logistic.
        clip: The largest magnitude that activations of gates see.
        looks: Whether gates have peepholes.
        stored: Gives weights of 8 bits of the input and of the state, which then meet bytes by
            scales that a run finds: the elements of the batch go through a step together.
        part: Tells layers of one op apart.
    """

    kind: str
    turned: tuple[bool, ...]
    batches: int
    steps: int
    hidden: int
    strides: Strides
    weights: Callable[[], Weights]
    activation: str = "TANH"
    clip: float = inf
    looks: bool = False
    stored: Callable[[], tuple[Stored, Stored]] | None = None
    part: str = ""
    hard_gates: tuple[float, float] | None = None

    @property
    def directions(self) -> int:
        """1 or 2."""
        return len(self.turned)

    @property
    def gates(self) -> int:
        """Products with the input for each cell."""
        return GATES[self.kind]

    @property
    def together(self) -> int:
        """Elements of the batch whose states meet weights of 8 bits at a time."""
        return min(self.batches, _MOST_TOGETHER)


@dataclass(frozen=True)
class Operands:
    """What a layer reads and writes besides its constants.

    Attributes:
        data: The input.
        result: All outputs.
        offset: Where this layer's begin in it, in floats.
        aux: An auxiliary input with weights of its own.
        lengths: Of sequences, INT32, or nothing.
        first: First states, and first cells of an LSTM.
        last: Tensors of the last states and cells, None where nothing keeps them.
    """

    data: Tensor
    result: Tensor
    offset: int = 0
    aux: Tensor | None = None
    lengths: Ref = field(default_factory=NoRef)
    first: tuple[Ref, Ref] = (NoRef(), NoRef())
    last: tuple[Tensor | None, Tensor | None] = (None, None)


@dataclass(frozen=True)
class _Shape:
    """How lanes are dealt out for a target."""

    gate: int
    state: Blocks
    reset: Blocks | None

    @property
    def reset_slots(self) -> int:
        return self.reset.slots if self.reset else 0


def call_cells(op: Op, context: Context, cells: Cells, operands: Operands) -> None:
    """Append the calls that run a layer: the product with the input, and the recurrence."""
    shape = _shape_of(cells, context)
    products = _input_products(op, context, cells, operands)
    written = [operands.result, *(tensor for tensor in operands.last if tensor is not None)]
    packed = context.packed(op, f"state{cells.part}", lambda: (_packed(cells, shape), None)).refs
    constants: list[Ref] = [packed[0], NoRef(), NoRef()]
    if shape.reset is not None or cells.stored is not None:
        constants[1] = packed[1]
    if cells.looks:
        constants[2] = packed[-1]
    last = [NoRef() if tensor is None else TensorRef(tensor) for tensor in operands.last]
    refs = (
        products,
        *constants,
        operands.lengths,
        *operands.first,
        TensorRef(operands.result, operands.offset),
    )
    params, slots = _params(cells, shape)
    context.call(
        op,
        _kernel(cells, shape),
        params,
        (*refs, *last, StopRef()),
        written,
        tasks=cells.directions * (1 if cells.stored is not None else cells.batches),
        scratch_bytes=FLOAT_BYTES * slots,
    )


def _shape_of(cells: Cells, context: Context) -> _Shape:
    lanes = context.vector_bytes // FLOAT_BYTES
    gate = whole_registers(cells.hidden, lanes)
    if cells.stored is not None:
        registers = registers_of(context.target, context.vector_bytes).count
        most = min(MOST_VECTORS, registers // 2 // cells.together)
        return _Shape(gate, blocks_of(gate * cells.gates, lanes, most), None)
    resets = cells.kind == _RESET
    gates = cells.gates - 1 if resets else cells.gates
    reset = blocks_of(cells.hidden, lanes) if resets else None
    return _Shape(gate, blocks_of(gate * gates, lanes), reset)


def _input_products(op: Op, context: Context, cells: Cells, operands: Operands) -> TensorRef:
    """Append the products of all steps with the input, and with the auxiliary one."""
    units = cells.directions * cells.gates * cells.hidden
    weights = cells.weights()
    bias = FloatEpilogue(weights.input_bias.reshape(units))
    made = _product(op, context, cells, operands.data, weights.inputs, bias)
    if operands.aux is None or weights.aux is None:
        return made
    joined = FloatEpilogue(None, "NONE", View(made.tensor, 0, 0, 0, units), units)
    return _product(op, context, cells, operands.aux, weights.aux, joined, "aux")


def _as_bytes(op: Op, context: Context, data: Tensor, width: int) -> View:
    """Rows of a copy of the input as 8 bits leave it, by one scale for all of it."""
    copy = context.temporary(op, FLOAT_BYTES * data.elements)
    kernel = Kernel("recurrent_f32.h", "recurrent_bytes")
    params: dict[str, ParamValue] = {"count": data.elements}
    context.call(op, kernel, params, (source_ref(context, data), copy), (copy.tensor,))
    return View(copy.tensor, 0, 0, 0, width)


def _product(
    op: Op,
    context: Context,
    cells: Cells,
    data: Tensor,
    weights: Floats,
    epilogue: FloatEpilogue,
    name: str = "inputs",
) -> TensorRef:
    width = weights.shape[-1]
    matrix = weights.reshape(-1, width)
    result = context.temporary(op, FLOAT_BYTES * cells.batches * cells.steps * len(matrix))
    product = of_rows(op, data, data, matrix.shape, lambda: matrix, epilogue)
    view = View(result.tensor, 0, 0, 0, len(matrix))
    if cells.stored is not None:
        inputs, _ = cells.stored()
        if inputs.fits:
            bias = np.asarray(epilogue.bias, np.float32)
            call_input_products(op, context, data, inputs, bias, view)
            return result
        product = product._replace(source=_as_bytes(op, context, data, width))
    call_conv_f32(product._replace(result=view, part=f"{name}{cells.part}"), context)
    return result


def _packed(cells: Cells, shape: _Shape) -> list[np.ndarray]:
    """Weights of the state, and those of the reset state or the peepholes, where there are any."""
    weights = cells.weights()
    split = _CANDIDATE if shape.reset else cells.gates
    pairs = list(zip(weights.states, weights.state_bias, strict=True))
    if cells.stored is None:
        arrays = [_stacked([_gates(w[:split], b[:split], shape) for w, b in pairs])]
    else:
        _, states = cells.stored()
        arrays = state_constants(states, weights.state_bias, shape.gate, shape.state)
    if shape.reset is not None:
        reset = shape.reset
        last = [pack_floats(w[_CANDIDATE], b[_CANDIDATE], reset) for w, b in pairs]
        arrays.append(_stacked(last))
    if weights.peepholes is not None:
        arrays.append(_stacked([spread_rows([*p], shape.gate) for p in weights.peepholes]))
    return arrays


def _gates(weights: Floats, bias: Floats, shape: _Shape) -> Floats:
    rows, added = spread_rows([*weights], shape.gate), spread_rows([*bias], shape.gate)
    return pack_floats(rows, added, shape.state)


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    return np.ascontiguousarray(np.stack(parts), np.float32)


def _kernel(cells: Cells, shape: _Shape) -> Kernel:
    activation = ACTIVATIONS[cells.activation] | (HARD_GATES if cells.hard_gates else 0)
    ends = activation, int(cells.looks), int(cells.clip < inf)
    if cells.stored is not None:
        arguments: tuple[int | str, ...] = (cells.together, shape.state.vectors, *ends)
        return Kernel("recurrent_together.h", "recurrent_together", arguments)
    arguments = (
        f"RECURRENT_{cells.kind}",
        shape.state.vectors,
        shape.reset.vectors if shape.reset else 0,
        *ends,
    )
    return Kernel("recurrent_f32.h", "recurrent_f32", arguments)


def _params(cells: Cells, shape: _Shape) -> tuple[dict[str, ParamValue], int]:
    """The fields of `struct recurrent_f32_params`, and the floats of scratch memory they mark."""
    hidden, strides = cells.hidden, cells.strides
    row = cells.directions * cells.gates * hidden
    state = shape.state.slots
    cell, candidate = state + shape.gate, state + 2 * shape.gate
    sizes: dict[str, ParamValue] = {
        "steps": cells.steps,
        "inputs": hidden,
        "cells": hidden,
        "outputs": hidden,
        "gate": shape.gate,
        "gate_blocks": shape.state.count,
        "in_batch": strides.in_batch * row,
        "in_step": strides.in_step * row,
        "out_batch": strides.out_batch,
        "out_step": strides.out_step,
    }
    slope, offset = cells.hard_gates or (0.0, 0.0)
    params: dict[str, ParamValue] = {
        **{f"lstm_size_{name}": value for name, value in sizes.items()},
        "lstm_cell_clip": inf,
        "lstm_gate_slope": slope,
        "lstm_gate_offset": offset,
        "batches": cells.batches,
        "turned": sum(1 << index for index, turned in enumerate(cells.turned) if turned),
        "reset_blocks": shape.reset.count if shape.reset else 0,
        "in_direction": cells.gates * hidden,
        "out_direction": strides.out_direction,
        "state_direction": strides.state_direction,
        "state_batch": strides.state_batch,
        "weights_direction": (hidden + 1) * shape.state.slots,
        "reset_direction": (hidden + 1) * shape.reset_slots,
        "table_direction": 3 * shape.gate if cells.looks else 0,
        "state": state,
        "cell": cell,
        "candidate": candidate,
        "clip": cells.clip,
    }
    if cells.stored is not None:
        return _together(cells, shape, params)
    return params, candidate + shape.gate + shape.reset_slots


def _together(
    cells: Cells, shape: _Shape, params: dict[str, ParamValue]
) -> tuple[dict[str, ParamValue], int]:
    """The fields of `struct recurrent_together_params`, and the floats of scratch memory."""
    words, slots = -(-cells.hidden // 4), shape.state.slots
    state = slots * cells.batches
    stored = state + 2 * shape.gate * cells.batches
    records = stored + -(-words * cells.batches // 2) * 2
    params |= {
        "weights_direction": words * 4 * slots,
        "reset_direction": STORED_ROWS * slots,
        "state": state,
        "cell": state + shape.gate,
        "candidate": stored,
    }
    layer: dict[str, ParamValue] = {f"layer_{name}": value for name, value in params.items()}
    return {**layer, "words": words, "records": records}, records + 2 * cells.batches
