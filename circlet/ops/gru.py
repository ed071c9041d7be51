"""GRU: Circle's gated recurrent unit over a whole sequence, as ONE's kernels compute it.

    update, reset = logistic of what both products give
    candidate = tanh(input product + reset * state product)
    state = update * state + (1 - update) * candidate

Weights stand under each other in the order update, reset, candidate. The operand that the schema
calls hidden_hidden meets the input, and hidden_input the state. The first dimension of the input is
time, whatever `time_major` says, and the result is the last state, which nothing keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Op, Shape
from circlet.ops import checks
from circlet.ops.functions import FUNCTIONS
from circlet.ops.guard import look
from circlet.ops.lstm_float import Floats
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import moves_bytes, operand, present
from circlet.ops.parts import matmul

GATES = 3
WEIGHTS, BIAS, STATE_WEIGHTS, STATE_BIAS, STATE = 1, 2, 3, 4, 5


@dataclass(frozen=True)
class GruAttrs:
    """Options of GRU."""

    activation: str = "TANH"
    return_sequences: bool = False
    time_major: bool = True


def hidden_of(op: Op) -> int:
    """Cells of an op."""
    return operand(op, STATE_WEIGHTS).static_shape[1]


def _infer(op: Op) -> list[TensorType]:
    """The last state: of two dimensions where the file says so, else of three."""
    data, result = operand(op, 0), op.outputs[0]
    last: Shape = (data.shape[1], hidden_of(op))
    is_flat = result.has_rank and len(result.shape) == 2
    return [TensorType(data.dtype, last if is_flat else (1, *last))]


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    steps, weights, state_weights = (present(arrays[i]) for i in (0, WEIGHTS, STATE_WEIGHTS))
    state = present(arrays[STATE]).reshape(-1, hidden_of(op))
    rows = matmul(steps.reshape(-1, steps.shape[-1]), weights.T)
    products = _with_bias(rows, arrays[BIAS]).reshape(*steps.shape[:2], -1)
    for product in products:
        look()
        of_state = _with_bias(matmul(state, state_weights.T), arrays[STATE_BIAS])
        state = _next(product, of_state, state)
    result = state[None] if len(op.outputs[0].shape) != 2 else state
    return [np.ascontiguousarray(result, np.float32)]


def _with_bias(rows: Floats, bias: np.ndarray | None) -> Floats:
    made: Floats = rows if bias is None else rows + bias
    return made


def _next(of_input: Floats, of_state: Floats, state: Floats) -> Floats:
    logistic = FUNCTIONS["logistic"].numpy
    inputs, states = (np.split(part, GATES, axis=1) for part in (of_input, of_state))
    update = np.asarray(logistic(inputs[0] + states[0]), np.float32)
    reset = np.asarray(logistic(inputs[1] + states[1]), np.float32)
    candidate = np.tanh(inputs[2] + reset * states[2])
    made: Floats = (update * state + (1 - update) * candidate).astype(np.float32)
    return made


def _sizes_hold(op: Op) -> bool:
    data, weights, states = (operand(op, i) for i in (0, WEIGHTS, STATE_WEIGHTS))
    if any(len(t.shape) != 2 or 0 in t.shape for t in (weights, states)):
        return False
    hidden = hidden_of(op)
    for position in (BIAS, STATE_BIAS):
        bias = op.input(position)
        if bias is not None and bias.shape != (GATES * hidden,):
            return False
    fits = weights.shape[0] == states.shape[0] == GATES * hidden
    return fits and data.shape[2] in (None, weights.shape[1]) and _state_fits(op, hidden)


def _state_fits(op: Op, hidden: int) -> bool:
    """Whether the state is a row for each element of the batch."""
    state, batch = operand(op, STATE), operand(op, 0).shape[1]
    *outer, rows, width = (1, *state.shape)
    same = rows == batch or None in (rows, batch)
    return width == hidden and same and all(size == 1 for size in outer)


def _types_hold(op: Op) -> bool:
    return all(tensor is None or tensor.dtype is DType.FLOAT32 for tensor in op.inputs)


def _cost(op: Op) -> Cost:
    data = operand(op, 0).static_shape
    weights = sum(operand(op, i).elements for i in (WEIGHTS, STATE_WEIGHTS))
    return Cost(data[0] * data[1] * weights, moves_bytes(op).bytes)


register(
    OpDef(
        kind="GRU",
        attrs=GruAttrs,
        arity=(6, 6),
        required=2,
        dtypes=("FLOAT32 FLOAT32 -> FLOAT32",),
        infer=_infer,
        rules=(
            Rule(
                "complete",
                lambda op: None not in (op.input(STATE_WEIGHTS), op.input(STATE)),
                "the weights of the state, or the state, are missing",
            ),
            checks.one_of("activation", ("TANH", "NONE")),
            Rule(
                "last_state",
                lambda op: not op.attributes(GruAttrs).return_sequences,
                "the kernels of ONE give the last state only, not all of them",
                sized=False,
            ),
            checks.rank_is(0, 3, "input"),
            Rule("operand_types", _types_hold, "all operands must be FLOAT32"),
            Rule("sizes", _sizes_hold, "input, weights, biases and state do not fit each other"),
        ),
        evaluate=_evaluate,
        numerics="tolerance",
        cost=_cost,
    )
)
