"""RNN kinds of float values with 8-bit weights: a call of one kernel for each direction."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.abi import LINE_BYTES, align
from circlet.backends.cpu.lower.products.matvec import Blocks, blocks_of
from circlet.backends.cpu.lower.recurrent.cells import ACTIVATIONS
from circlet.backends.cpu.lower.recurrent.hybrid import packed_matrix
from circlet.backends.cpu.lower.recurrent.rnn import KINDS, time_of, why_no_rnn
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
    StopRef,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.ops.rnn import (
    AUX_INPUT,
    Layer,
    RnnAttrs,
    is_hybrid,
    layers_of,
    merges,
    turns,
    units_of,
)
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    return why_no_rnn(op) if is_hybrid(op) else "does not take float weights"


def _widths(op: Op, layer: Layer) -> tuple[int, int]:
    """Elements of a vector of the input, and of the auxiliary one."""
    aux = 0 if layer.aux_weights is None else operand(op, AUX_INPUT).static_shape[-1]
    return operand(op, layer.data).static_shape[-1], aux


def _params(op: Op, layer: Layer, blocks: Blocks, row: int) -> dict[str, ParamValue]:
    """The fields of `struct rnn_hybrid_params`; outputs lie in rows of `row` floats."""
    _, steps, batch, step = time_of(op)
    step = -step if layer.is_turned else step
    inputs, aux = _widths(op, layer)
    return {
        "steps": steps,
        "turns": turns(op, steps),
        "units": units_of(op, layer),
        "blocks": blocks.count,
        "inputs": inputs,
        "aux": aux,
        "in_batch": batch * inputs,
        "in_step": step * inputs,
        "aux_batch": batch * aux,
        "aux_step": step * aux,
        "out_batch": batch * row,
        "out_step": step * row,
        "quantised": align(4 * blocks.slots, LINE_BYTES),
        "asymmetric": int(op.attributes(RnnAttrs).asymmetric_quantize_inputs),
    }


def _constants(op: Op, layer: Layer, blocks: Blocks, context: Context) -> tuple[Ref, ...]:
    """Weights of input and state, with their records, and the biases."""

    def packed(position: int) -> tuple[Ref, Ref]:
        return packed_matrix(op, [position], units_of(op, layer), blocks, context)

    bias = np.asarray(operand(op, layer.bias).data)
    padded = context.constant(np.pad(bias, (0, blocks.slots - bias.size)))
    return *packed(layer.weights), *packed(layer.recurrent), padded


def _aux(op: Op, layer: Layer, blocks: Blocks, context: Context, first: int) -> tuple[Ref, ...]:
    """The auxiliary input from its first step on, its weights, and their records."""
    if layer.aux_weights is None:
        return NoRef(), NoRef(), NoRef()
    weights = packed_matrix(op, [layer.aux_weights], units_of(op, layer), blocks, context)
    return TensorRef(operand(op, AUX_INPUT), first), *weights


def _lower_layer(op: Op, context: Context, index: int) -> None:
    layer = layers_of(op)[index]
    batches, steps, _, step = time_of(op)
    result, state = op.outputs[0 if merges(op) else index], operand(op, layer.state)
    row, units, (inputs, aux) = result.static_shape[-1], units_of(op, layer), _widths(op, layer)
    blocks = blocks_of(units, context.vector_bytes // 4)
    params = _params(op, layer, blocks, row)
    first = (steps - 1) * step if layer.is_turned else 0
    beside = row - units if merges(op) and layer.is_turned else 0
    operands = (
        TensorRef(operand(op, layer.data), first * inputs),
        *_constants(op, layer, blocks, context),
        *_aux(op, layer, blocks, context, first * aux),
        TensorRef(state),
        TensorRef(result, first * row + beside),
        StopRef(),
    )
    room = align(4 * blocks.slots, LINE_BYTES) + max(inputs, aux, units) + 64
    kernel = Kernel("rnn_hybrid.h", "rnn_hybrid", (blocks.vectors, ACTIVATIONS[activation_of(op)]))
    context.call(op, kernel, params, operands, (result, state), tasks=batches, scratch_bytes=room)


def _lower(op: Op, context: Context) -> None:
    for index in range(len(layers_of(op))):
        _lower_layer(op, context, index)


for _kind in KINDS:
    LOWERINGS.add(Lowering(_kind, f"{_kind.lower()}_hybrid", _refuses, _lower, rank=Rank.HYBRID))
