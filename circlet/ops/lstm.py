"""UNIDIRECTIONAL_SEQUENCE_LSTM and LSTM: gated recurrence over time with a kept state."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Op, Shape
from circlet.ops import checks
from circlet.ops.lstm_float import run_float
from circlet.ops.lstm_int8 import run_integer
from circlet.ops.lstm_operands import (
    CELL_STATE,
    OUTPUT_STATE,
    OneLstmAttrs,
    SequenceLstmAttrs,
    cells,
    gates,
    inputs,
    outputs,
    steps_first,
)
from circlet.ops.lstm_rules import RULES
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import moves_bytes, operand, present

ACTIVATIONS = ("NONE", "RELU", "RELU6", "TANH")
_FORMS = tuple(
    f"{data} {first} {weights} -> {data}"
    for data, weights in (
        ("FLOAT32", "FLOAT32"),
        ("FLOAT32", "INT8"),
        ("FLOAT32", "UINT8"),
        ("INT8", "INT8"),
    )
    for first in (weights, "_")
)


def _infer(op: Op) -> list[TensorType]:
    data = operand(op, 0)
    sizes: Shape = (*data.shape[:-1], outputs(op))
    return [TensorType(data.dtype, sizes)]


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    x = present(arrays[0])
    batched = x.ndim == 3 and not steps_first(op)
    steps = np.swapaxes(x, 0, 1) if batched else x.reshape(-1, *x.shape[-2:])
    run = run_integer if operand(op, 0).dtype is DType.INT8 else run_float
    made, state, cell = run(op, arrays, steps)
    result = np.swapaxes(made, 0, 1) if batched else made.reshape(*x.shape[:-1], -1)
    tensors = (op.outputs[0], operand(op, OUTPUT_STATE), operand(op, CELL_STATE))
    pairs = zip((result, state, cell), tensors, strict=True)
    return [np.ascontiguousarray(array, tensor.dtype.numpy) for array, tensor in pairs]


def _cost(op: Op) -> Cost:
    row = (inputs(op) + outputs(op)) * cells(op) * len(gates(op))
    return Cost(operand(op, 0).elements // inputs(op) * row, moves_bytes(op).bytes)


def _record(kind: str, attrs: type, rank: int, own: Rule) -> OpDef:
    return OpDef(
        kind=kind,
        attrs=attrs,
        arity=(20, 24),
        required=1,
        dtypes=_FORMS,
        infer=_infer,
        rules=(
            own,
            checks.one_of("activation", ACTIVATIONS),
            checks.rank_is(0, rank, "input"),
            *RULES,
        ),
        evaluate=_evaluate,
        cost=_cost,
        updates=(OUTPUT_STATE, CELL_STATE),
    )


register(
    _record(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        SequenceLstmAttrs,
        3,
        Rule(
            "recurrent_full",
            lambda op: not op.attributes(SequenceLstmAttrs).diagonal_recurrent_tensors,
            "recurrent weights must be whole matrices",
        ),
    )
)
LSTM = register(_record("LSTM", OneLstmAttrs, 2, checks.one_of("kernel_type", ("FULL",))))
