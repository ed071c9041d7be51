"""RNN_SEQUENCE: a plain recurrent layer in one direction, its state an operand and a result.

Operands: the input, its weights, recurrent weights, bias, the state, and perhaps an auxiliary input
with its weights. An input of two dimensions is one step.
"""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ops.decomposition import Parts
from circlet.ops.guard import look
from circlet.ops.lstm_float import activated
from circlet.ops.nnapi.cells import copied, product, run_steps, shaped, steps_of, summed
from circlet.ops.nnapi.lstm import ACTIVATIONS, in_layout, in_steps, steps_first
from circlet.ops.nnapi.record import attributes, nnapi_kind
from circlet.ops.opdef import Arrays, Cost, Rule, TensorType
from circlet.ops.operands import moves_bytes, operand, present, sizes_agree, when_ranked
from circlet.ops.parts import matmul

WEIGHTS, RECURRENT, BIAS, STATE, AUX, AUX_WEIGHTS = range(1, 7)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    given = [*arrays, *[None] * (AUX_WEIGHTS + 1 - len(arrays))]
    steps, activation = in_steps(op, present(given[0])), attributes(op).text("activation")
    weights, recurrent, bias, state = (present(given[i]) for i in (WEIGHTS, RECURRENT, BIAS, STATE))
    aux = None if given[AUX] is None else in_steps(op, present(given[AUX]))
    made = []
    for time, step in enumerate(steps):
        look()
        total = bias + matmul(step, weights.T) + matmul(state, recurrent.T)
        if aux is not None:
            total = total + matmul(aux[time], present(given[AUX_WEIGHTS]).T)
        state = activated(total.astype(np.float32), activation).astype(np.float32)
        made.append(state)
    rows = np.stack(made) if made else np.zeros((0, *state.shape), np.float32)
    return [in_layout(op, rows), state]


def _decompose(op: Op) -> list[Op]:
    """The ops of all steps; none where they are many or not known."""
    if steps_of(op) is None or operand(op, WEIGHTS).shape[0] is None:
        return []
    parts, state = Parts(op), operand(op, STATE)
    activation, weights = attributes(op).text("activation"), operand(op, WEIGHTS)

    def step(x: Tensor, extra: Tensor | None) -> Tensor:
        nonlocal state
        terms = [product(parts, x, weights, operand(op, BIAS))]
        terms.append(product(parts, state, operand(op, RECURRENT)))
        if extra is not None:
            terms.append(product(parts, extra, operand(op, AUX_WEIGHTS)))
        state = shaped(parts, summed(parts, terms), activation)
        return state

    last = run_steps(op, parts, op.input(AUX), step)
    copied(parts, last, op.outputs[1])
    return parts.ops


def _infer(op: Op) -> list[TensorType]:
    data, units = operand(op, 0).shape, operand(op, WEIGHTS).shape[0]
    batch = data[1] if len(data) == 3 and steps_first(op) else data[0]
    sizes = ((*data[: len(data) - 1], units), (batch, units))
    return [TensorType(DType.FLOAT32, shape) for shape in sizes]


def _sizes_hold(op: Op) -> bool:
    data, weights = operand(op, 0).shape, operand(op, WEIGHTS).shape
    if len(data) not in (2, 3) or len(weights) != 2:
        return False
    units, aux = weights[0], op.input(AUX_WEIGHTS)
    own = sizes_agree(data[-1:], weights[1:])
    recurrent = sizes_agree(operand(op, RECURRENT).shape, (units, units))
    rest = sizes_agree(operand(op, BIAS).shape, (units,))
    state = sizes_agree(operand(op, STATE).shape, (None, units))
    added = aux is None or sizes_agree(aux.shape, (units, operand(op, AUX).shape[-1]))
    return own and recurrent and rest and state and added


def _aux_whole(op: Op) -> bool:
    return (op.input(AUX) is None) == (op.input(AUX_WEIGHTS) is None)


def _cost(op: Op) -> Cost:
    width, units = operand(op, 0).static_shape[-1], operand(op, WEIGHTS).static_shape[0]
    aux = op.input(AUX)
    row = width + units + (aux.static_shape[-1] if aux is not None else 0)
    rows = operand(op, 0).elements // max(width, 1)
    return Cost(rows * row * units, moves_bytes(op).bytes)


nnapi_kind(
    "RNN_SEQUENCE",
    _evaluate,
    _infer,
    _cost,
    inputs=(5, 7),
    outputs=2,
    dtypes=("FLOAT32 FLOAT32 FLOAT32 FLOAT32 FLOAT32 -> FLOAT32",),
    rules=(
        Rule("auxiliary", _aux_whole, "an auxiliary input needs weights", sized=False),
        Rule(
            "activation",
            lambda op: attributes(op).text("activation") in ACTIVATIONS,
            f"the activation must be one of {', '.join(ACTIVATIONS)}",
            sized=False,
        ),
        when_ranked("sizes", _sizes_hold, "sizes of weights, bias and state must fit the input"),
    ),
    decompose=_decompose,
)
