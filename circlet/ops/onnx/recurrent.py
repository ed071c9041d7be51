"""LSTM, GRU and RNN: both directions, lengths of sequences, both layouts, peepholes, clipping."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from circlet.ir import Op, Shape
from circlet.ops.guard import look
from circlet.ops.onnx.record import PREFIX, OnnxAttrs, attributes, onnx_kind, stated
from circlet.ops.opdef import Cost, TensorType, moves_bytes
from circlet.ops.operands import operand

Array = np.ndarray
Function = Callable[[Array], Array]
State = tuple[Array, ...]
Step = Callable[[Array, State], State]

ACTIVATIONS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
HARD_SIGMOID = (0.2, 0.5)  # the slope and the offset that are not stated
DYNAMIC_LSTM = f"CUSTOM:{PREFIX}com.microsoft.DynamicQuantizeLSTM"
_FUNCTION_COST = 16  # operations of a gate's functions for each cell


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _function(name: str, alpha: float | None, beta: float | None) -> Function:
    def of(given: float | None, default: float) -> float:
        return default if given is None else given

    table: dict[str, Function] = {
        "sigmoid": _sigmoid,
        "tanh": np.tanh,
        "relu": lambda x: np.maximum(x, 0),
        "affine": lambda x: of(alpha, 1) * x + of(beta, 0),
        "leakyrelu": lambda x: np.where(x < 0, of(alpha, 0.01) * x, x),
        "thresholdedrelu": lambda x: np.where(x > of(alpha, 1), x, 0),
        "scaledtanh": lambda x: of(alpha, 1) * np.tanh(of(beta, 1) * x),
        "hardsigmoid": lambda x: np.clip(
            of(alpha, HARD_SIGMOID[0]) * x + of(beta, HARD_SIGMOID[1]), 0, 1
        ),
        "elu": lambda x: np.where(x < 0, of(alpha, 1) * np.expm1(np.minimum(x, 0)), x),
        "softsign": lambda x: x / (1 + np.abs(x)),
        "softplus": lambda x: np.logaddexp(0, x),
    }
    return table[name.lower()]


def layer_kind(op: Op) -> str:
    """LSTM, GRU or RNN."""
    return "LSTM" if op.label == DYNAMIC_LSTM else op.label.rpartition(".")[2]


def activation_names(op: Op) -> list[tuple[str, ...]]:
    """The activation functions of each direction, in lower case."""
    attrs, names = attributes(op), ACTIVATIONS[layer_kind(op)]
    given = [str(name).lower() for name in attrs.get("activations") or (*names, *names)]
    starts = (len(names) * index for index in range(len(directions_of(attrs))))
    return [tuple(given[start : start + len(names)]) for start in starts]


def hard_gates(op: Op) -> list[tuple[float, float]]:
    """Slope and offset of the gates of each direction, if they go through HardSigmoid."""
    attrs, kind = attributes(op), layer_kind(op)
    slope, offset = HARD_SIGMOID
    rows = [_constants(attrs, kind, at)[0] for at in range(len(directions_of(attrs)))]
    return [(slope if a is None else a, offset if b is None else b) for a, b in rows]


def _constants(
    attrs: OnnxAttrs, kind: str, direction: int
) -> list[tuple[float | None, float | None]]:
    """What is stated of the constants of each activation function of one direction."""
    alphas, betas = (list(attrs.get(f"activation_{n}") or ()) for n in ("alpha", "beta"))
    first, count = direction * len(ACTIVATIONS[kind]), len(ACTIVATIONS[kind])

    def at(values: list[float], index: int) -> float | None:
        return values[index] if index < len(values) else None

    return [(at(alphas, i), at(betas, i)) for i in range(first, first + count)]


def _functions(attrs: OnnxAttrs, kind: str, direction: int) -> list[Function]:
    """The activation functions of one direction."""
    names = ACTIVATIONS[kind]
    given = attrs.get("activations") or (*names, *names)
    of_direction = given[direction * len(names) :]
    constants = _constants(attrs, kind, direction)
    return [_function(n, a, b) for n, (a, b) in zip(of_direction, constants, strict=False)]


def _clip(attrs: OnnxAttrs, x: Array) -> Array:
    limit = attrs.get("clip")
    return x if limit is None else np.clip(x, -limit, limit)


def directions_of(attrs: OnnxAttrs) -> list[bool]:
    """Of each direction, whether it runs backwards."""
    one = {"forward": [False], "reverse": [True]}
    return one.get(attrs.get("direction", "forward"), [False, True])


def _turned(x: Array, lengths: Array) -> Array:
    """Each sequence of [time, batch, ...] from its end."""
    made = x.copy()
    for batch, length in enumerate(lengths):
        made[:length, batch] = x[:length, batch][::-1]
    return made


def _run(x: Array, lengths: Array, state: State, step: Step) -> tuple[Array, State]:
    """The first state after each time, zero behind a sequence's end, and the last state."""
    rows = []
    for time, data in enumerate(x):
        look()
        alive = (time < lengths)[:, None]
        fresh = step(data, state)
        rows.append(np.where(alive, fresh[0], 0))
        state = tuple(np.where(alive, new, old) for new, old in zip(fresh, state, strict=True))
    made = np.stack(rows) if rows else np.zeros((0, *state[0].shape), x.dtype)
    return made, state


def _bias(b: Any, direction: int, gates: int, hidden: int) -> Iterator[Array]:
    """Biases of the operand and of the state, gates one after the other."""
    for half in range(2):
        width = gates * hidden
        yield np.zeros(width) if b is None else b[direction, half * width : (half + 1) * width]


def _layer(
    attrs: OnnxAttrs,
    x: Array,
    lengths: Any,
    starts: Sequence[Any],
    hidden: int,
    steps: Sequence[Step],
) -> tuple[Array, ...]:
    """All directions over the same operand, in the layout of the attributes."""
    batch_first = attrs.get("layout", 0)
    data = np.swapaxes(x, 0, 1) if batch_first else x
    count = np.full(data.shape[1], data.shape[0]) if lengths is None else lengths
    rows, lasts = [], []
    for direction, (is_turned, step) in enumerate(zip(directions_of(attrs), steps, strict=True)):
        state = tuple(_start(s, direction, data, hidden, batch_first) for s in starts)
        given = _turned(data, count) if is_turned else data
        made, last = _run(given, count, state, step)
        rows.append(_turned(made, count) if is_turned else made)
        lasts.append(last)
    y = np.stack(rows, 1)
    ends = [np.stack([last[i] for last in lasts]) for i in range(len(starts))]
    if batch_first:
        return y.transpose(2, 0, 1, 3), *(end.swapaxes(0, 1) for end in ends)
    return y, *ends


def _start(given: Any, direction: int, data: Array, hidden: int, batch_first: int) -> Array:
    if given is None:
        return np.zeros((data.shape[1], hidden), data.dtype)
    return given[:, direction] if batch_first else given[direction]


def _rnn(
    attrs: OnnxAttrs,
    x: Array,
    w: Array,
    r: Array,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
) -> tuple[Array, ...]:
    hidden = r.shape[2]

    def made(direction: int) -> Step:
        (f,) = _functions(attrs, "RNN", direction)
        total = sum(_bias(b, direction, 1, hidden))

        def step(data: Array, state: State) -> State:
            return (f(_clip(attrs, data @ w[direction].T + state[0] @ r[direction].T + total)),)

        return step

    steps = [made(i) for i in range(w.shape[0])]
    return _layer(attrs, x, lengths, [h], hidden, steps)


def _gru(
    attrs: OnnxAttrs,
    x: Array,
    w: Array,
    r: Array,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
) -> tuple[Array, ...]:
    hidden, before = r.shape[2], attrs.get("linear_before_reset", 0)

    def made(direction: int) -> Step:
        f, g = _functions(attrs, "GRU", direction)
        of_data, of_state = (half.reshape(3, hidden) for half in _bias(b, direction, 3, hidden))
        wz, wr, wh = np.split(w[direction], 3)
        rz, rr, rh = np.split(r[direction], 3)

        def step(data: Array, state: State) -> State:
            (last,) = state
            update = f(_clip(attrs, data @ wz.T + last @ rz.T + of_data[0] + of_state[0]))
            reset = f(_clip(attrs, data @ wr.T + last @ rr.T + of_data[1] + of_state[1]))
            if before:
                inner = reset * (last @ rh.T + of_state[2])
            else:
                inner = (reset * last) @ rh.T + of_state[2]
            fresh = g(_clip(attrs, data @ wh.T + inner + of_data[2]))
            return ((1 - update) * fresh + update * last,)

        return step

    steps = [made(i) for i in range(w.shape[0])]
    return _layer(attrs, x, lengths, [h], hidden, steps)


def _lstm(
    attrs: OnnxAttrs,
    x: Array,
    w: Array,
    r: Array,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    c: Any = None,
    p: Any = None,
    seen: Function = np.asarray,
) -> tuple[Array, ...]:
    """`seen` says as what the weights of the state meet it."""
    hidden, coupled = r.shape[2], attrs.get("input_forget", 0)

    def made(direction: int) -> Step:
        f, g, out = _functions(attrs, "LSTM", direction)
        total = sum(_bias(b, direction, 4, hidden))
        peep = np.zeros((3, hidden)) if p is None else p[direction].reshape(3, hidden)

        def step(data: Array, state: State) -> State:
            last, cell = state
            gates = data @ w[direction].T + seen(last) @ r[direction].T + total
            i, o, forget, new = np.split(gates, 4, axis=-1)
            opened = f(_clip(attrs, i + peep[0] * cell))
            kept = 1 - opened if coupled else f(_clip(attrs, forget + peep[2] * cell))
            fresh = kept * cell + opened * g(_clip(attrs, new))
            shown = f(_clip(attrs, o + peep[1] * fresh))
            return shown * out(fresh), fresh

        return step

    steps = [made(i) for i in range(w.shape[0])]
    return _layer(attrs, x, lengths, [h, c], hidden, steps)


def _as_bytes(x: Array) -> Array:
    """What is left of floats that became UINT8 by DynamicQuantizeLinear."""
    low, high = np.float32(x.min(initial=0)), np.float32(x.max(initial=0))
    scale = (high - low) / np.float32(255) or np.float32(1)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return np.asarray((np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale, np.float32)


def real_weights(stored: Array, scale: Array, zero: Any) -> Array:
    """[directions, gates, operand] of weights that are stored as [directions, operand, gates]."""
    at = (len(stored), 1, -1)
    offset = np.float32(0) if zero is None else zero.reshape(at).astype(np.float32)
    real = (stored.astype(np.float32) - offset) * scale.reshape(at)
    return np.asarray(real.swapaxes(1, 2), np.float32)


def _dynamic_lstm(attrs: OnnxAttrs, x: Array, w: Array, r: Array, *others: Any) -> tuple[Any, ...]:
    """LSTM whose operand, and whose state at each step, are quantised for 8-bit weights."""
    given: list[Any] = [*others, *[None] * (9 - len(others))]
    b, lengths, h, c, p = given[:5]
    w_real, r_real = real_weights(w, given[5], given[6]), real_weights(r, given[7], given[8])
    data = _as_bytes(x)
    return _lstm(attrs, data, w_real, r_real, b, lengths, h, c, p, seen=_as_bytes)


def _infer_dynamic(op: Op) -> list[TensorType]:
    x, states = operand(op, 0).shape, operand(op, 2).shape
    if not len(x) == len(states) == 3:
        return stated(op)
    directions, size = states[:2]
    last: Shape = (directions, x[1], size)
    shapes: list[Shape] = [(x[0], directions, x[1], size), last, last]
    return [TensorType(o.dtype, s) for o, s in zip(op.outputs, shapes, strict=False)]


def _infer(op: Op) -> list[TensorType]:
    x, weights, hidden = (operand(op, index).shape for index in range(3))
    if not (len(x) == len(weights) == len(hidden) == 3):
        return stated(op)
    directions, size = weights[0], hidden[2]
    if attributes(op).get("layout", 0):
        rows: Shape = (*x[:2], directions, size)
        last: Shape = (x[0], directions, size)
    else:
        rows, last = (x[0], directions, x[1], size), (directions, x[1], size)
    shapes = [rows, last, last]
    return [TensorType(o.dtype, s) for o, s in zip(op.outputs, shapes, strict=False)]


def _cost(op: Op) -> Cost:
    """Each vector of the input meets the weights, and the state those of its own."""
    data, weights, states = (operand(op, index) for index in range(3))
    if not (len(data.shape) == len(weights.shape) == len(states.shape) == 3):
        return moves_bytes(op)
    vectors = math.prod(data.static_shape[:2])
    rows = weights.elements + states.elements
    gates = math.prod(weights.static_shape[:2])
    return Cost(vectors * (rows + _FUNCTION_COST * gates), moves_bytes(op).bytes)


onnx_kind("RNN", _rnn, inputs=(3, 6), infer=_infer, cost=_cost)
onnx_kind("GRU", _gru, inputs=(3, 6), infer=_infer, cost=_cost)
onnx_kind("LSTM", _lstm, inputs=(3, 8), infer=_infer, cost=_cost)
onnx_kind(
    DYNAMIC_LSTM.removeprefix(f"CUSTOM:{PREFIX}"),
    _dynamic_lstm,
    inputs=(3, 12),
    infer=_infer_dynamic,
    cost=_cost,
)
