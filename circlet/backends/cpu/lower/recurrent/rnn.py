"""RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN over float weights."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.products.matvec import Floats
from circlet.backends.cpu.lower.recurrent.cells import (
    ACTIVATIONS,
    Cells,
    Operands,
    Strides,
    Weights,
    call_cells,
)
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, TensorRef
from circlet.ir import Op
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.ops.rnn import AUX_INPUT, Layer, is_hybrid, layers_of, merges, steps_first, units_of
from circlet.target.targets import Target

KINDS = ("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN")


def why_no_rnn(op: Op) -> str | None:
    """Why no kernel takes an op, whatever its weights."""
    if activation_of(op) not in ACTIVATIONS:
        return f"fused activation {activation_of(op)}"
    computed = (operand(op, 0), op.input(AUX_INPUT))
    if any(tensor is not None and tensor.is_constant for tensor in computed):
        return "constant input"
    return "a size is 0" if operand(op, 0).elements == 0 else None


def _refuses(op: Op, target: Target) -> str | None:
    return "does not take 8-bit weights" if is_hybrid(op) else why_no_rnn(op)


def _weights(op: Op, layer: Layer) -> Weights:
    def matrix(position: int) -> Floats:
        return np.asarray(operand(op, position).data)[None, None]

    bias = matrix(layer.bias)
    aux = None if layer.aux_weights is None else matrix(layer.aux_weights)
    parts = matrix(layer.weights), matrix(layer.recurrent), bias, np.zeros_like(bias)
    return Weights(*parts, aux=aux)


def time_of(op: Op) -> tuple[int, int, int, int]:
    """Batches, steps, and how many vectors apart elements of the batch and steps are."""
    sizes = operand(op, 0).static_shape
    if len(sizes) == 2:
        return sizes[0], 1, 1, sizes[0]
    if steps_first(op):
        return sizes[1], sizes[0], 1, sizes[1]
    return sizes[0], sizes[1], sizes[1], 1


def _lower_layer(op: Op, context: Context, index: int) -> None:
    layer = layers_of(op)[index]
    batches, steps, batch, step = time_of(op)
    result = op.outputs[0 if merges(op) else index]
    width, units = result.static_shape[-1], units_of(op, layer)
    cells = Cells(
        "PLAIN",
        (layer.is_turned,),
        batches,
        steps,
        units,
        Strides(batch, step, batch * width, step * width, 0, units, 0),
        lambda: _weights(op, layer),
        activation_of(op),
        part=str(index),
    )
    state = operand(op, layer.state)
    operands = Operands(
        operand(op, layer.data),
        result,
        offset=width - units if merges(op) and layer.is_turned else 0,
        aux=None if layer.aux_weights is None else operand(op, AUX_INPUT),
        first=(TensorRef(state), TensorRef(state)),
        last=(state, None),
    )
    call_cells(op, context, cells, operands)


def _lower(op: Op, context: Context) -> None:
    for index in range(len(layers_of(op))):
        _lower_layer(op, context, index)


for _kind in KINDS:
    LOWERINGS.add(Lowering(_kind, f"{_kind.lower()}_f32", _refuses, _lower))
