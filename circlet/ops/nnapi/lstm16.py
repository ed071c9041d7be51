"""QUANTIZED_16BIT_LSTM: one step of an LSTM in fixed-point numbers of 16 bits.

Operands: the input; its weights and the recurrent weights for the input, forget, cell and output
gates; their biases; the cell state, Q4.11; the output before. Results: the cell state, the output.
"""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Op
from circlet.ops.gemmlowp16 import Int64, high_mul, logistic, tanh
from circlet.ops.nnapi.record import nnapi_kind
from circlet.ops.opdef import Arrays, Cost, Rule, TensorType
from circlet.ops.operands import (
    is_affine,
    moves_bytes,
    operand,
    present,
    scale_of,
    sizes_agree,
    when_ranked,
    zero_of,
)
from circlet.ops.requantize import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
)

_WEIGHTS, _RECURRENT, _BIASES, _CELL, _OUTPUT = range(1, 5), range(5, 9), range(9, 13), 13, 14
_INPUT_GATE, _FORGET_GATE, _CELL_GATE, _OUTPUT_GATE = range(4)
_CENTRE = 128
_GATE_STEPS = 4096  # of the gates' sums, which are Q3.12
_STATE_BITS, _GATE_BITS = 4, 3
_LOW, _HIGH = -(1 << 15), (1 << 15) - 1


def _sums(op: Op, arrays: Arrays, gate: int) -> np.ndarray:
    """What a gate sees, Q3.12.

    Android's own code, which its tests hold to, sets the recurrent weights before those of the
    input, and the output behind the input: their columns meet so, whatever they are called.
    """
    rows = np.concatenate([present(arrays[0]), present(arrays[_OUTPUT])], axis=1)
    weights = [present(arrays[places[gate]]) for places in (_RECURRENT, _WEIGHTS)]
    matrix = np.concatenate(weights, axis=1).astype(np.float64)
    centred = rows.astype(np.float64) - _CENTRE
    total = (centred @ (matrix - zero_of(operand(op, _WEIGHTS[gate]))).T).astype(np.int64)
    total = total + present(arrays[_BIASES[gate]])
    factor = quantize_multiplier(_GATE_STEPS * scale_of(operand(op, _BIASES[0])))
    return np.clip(multiply_by_quantized_multiplier(total, *factor), _LOW, _HIGH).astype(np.int16)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    seen = [_sums(op, arrays, gate) for gate in range(4)]
    taken, kept, given = (logistic(seen[g]) for g in (_INPUT_GATE, _FORGET_GATE, _OUTPUT_GATE))
    update = tanh(seen[_CELL_GATE], _GATE_BITS)
    added: Int64 = rounding_divide_by_pot(high_mul(taken, update), _STATE_BITS)
    cell = np.clip(added + high_mul(kept, present(arrays[_CELL])), _LOW, _HIGH)
    shown = np.clip(cell << (_STATE_BITS - _GATE_BITS), _LOW, _HIGH).astype(np.int16)
    made = rounding_divide_by_pot(high_mul(given, tanh(shown, _GATE_BITS)), 8)
    stored = np.clip(made, -_CENTRE, _CENTRE - 1) + _CENTRE
    return [cell.astype(np.int16), stored.astype(np.uint8)]


def _infer(op: Op) -> list[TensorType]:
    sizes = (operand(op, 0).shape[0], operand(op, _BIASES[0]).shape[0])
    return [TensorType(DType.INT16, sizes), TensorType(DType.UINT8, sizes)]


def _types_hold(op: Op) -> bool:
    bytes_at = (0, *_WEIGHTS, *_RECURRENT, _OUTPUT)
    stored = all(operand(op, index).dtype is DType.UINT8 for index in bytes_at)
    biases = all(operand(op, index).dtype is DType.INT32 for index in _BIASES)
    return stored and biases and operand(op, _CELL).dtype is DType.INT16


def _scales_hold(op: Op) -> bool:
    scaled = (*_WEIGHTS, *_RECURRENT, *_BIASES)
    if not all(is_affine(operand(op, index)) for index in scaled):
        return False
    weights = {zero_of(operand(op, index)) for index in (*_WEIGHTS, *_RECURRENT)}
    biases = {scale_of(operand(op, index)) for index in _BIASES}
    return len(weights) == len(biases) == 1


def _sizes_hold(op: Op) -> bool:
    data, state = operand(op, 0).shape, operand(op, _CELL).shape
    if len(data) != 2 or len(state) != 2:
        return False
    units = state[1]
    own = [sizes_agree(operand(op, index).shape, (units, data[1])) for index in _WEIGHTS]
    own += [sizes_agree(operand(op, index).shape, (units, units)) for index in _RECURRENT]
    own += [sizes_agree(operand(op, index).shape, (units,)) for index in _BIASES]
    return all(own) and sizes_agree(operand(op, _OUTPUT).shape, state)


def _cost(op: Op) -> Cost:
    rows = operand(op, 0).elements // max(operand(op, 0).static_shape[-1], 1)
    weights = sum(operand(op, index).elements for index in (*_WEIGHTS, *_RECURRENT))
    return Cost(rows * weights, moves_bytes(op).bytes)


nnapi_kind(
    "QUANTIZED_16BIT_LSTM",
    _evaluate,
    _infer,
    _cost,
    inputs=(15, 15),
    outputs=2,
    dtypes=("UINT8 UINT8 UINT8 UINT8 UINT8 -> INT16",),
    rules=(
        Rule("types", _types_hold, "it needs bytes, INT32 biases and INT16 cells", sized=False),
        Rule("scales", _scales_hold, "weights need one zero point, biases one scale", sized=False),
        when_ranked("sizes", _sizes_hold, "sizes of weights, biases and states must fit the input"),
    ),
    numerics="exact",
)
