"""What must hold of the operands of the LSTM kinds before they are evaluated."""

from __future__ import annotations

from collections.abc import Iterator

from circlet.ir import DType, Op, Tensor
from circlet.ops.lstm_int8 import cell_exponent, gate_scale
from circlet.ops.lstm_operands import (
    CELL_STATE,
    GATES,
    HIDDEN,
    INPUT,
    OUTPUT,
    OUTPUT_STATE,
    PROJECTION,
    PROJECTION_BIAS,
    Gate,
    gates,
    is_normalised,
    steps_first,
)
from circlet.ops.opdef import Rule
from circlet.ops.operands import is_affine, operand, scale_of

_FACTOR_LIMIT = 2.0**30
_NORM_HEADROOM = 2.0**14  # Factors gain 12 bits, and variances are limited to 10000 times a scale.
_FLOATS = dict.fromkeys(range(24), DType.FLOAT32)
_STORED = (
    {0: DType.INT8, PROJECTION: DType.INT8, PROJECTION_BIAS: DType.INT32}
    | {OUTPUT_STATE: DType.INT8, CELL_STATE: DType.INT16}
    | {position: DType.INT8 for gate in GATES for position in (gate.weights, gate.recurrent)}
    | {gate.bias: DType.INT32 for gate in GATES}
    | {gate.norm: DType.INT16 for gate in GATES}
    | {gate.peephole: DType.INT16 for gate in GATES if gate.peephole is not None}
)


_WEIGHTS = [
    *(position for gate in GATES for position in (gate.weights, gate.recurrent)),
    *(gate.peephole for gate in GATES if gate.peephole is not None),
    PROJECTION,
]


def _has(op: Op, *positions: int) -> list[bool]:
    return [op.input(position) is not None for position in positions]


def _complete(op: Op) -> bool:
    needed = [p for g in GATES[1:] for p in (g.weights, g.recurrent, g.bias)]
    return all(_has(op, *needed, OUTPUT_STATE, CELL_STATE))


def _gates_whole(op: Op) -> bool:
    """The input gate, the peepholes and the norms are there as a whole or not at all."""
    has_input = INPUT in gates(op)
    if any(flag != has_input for flag in _has(op, INPUT.recurrent, INPUT.bias)):
        return False
    if not has_input and any(_has(op, 9, INPUT.norm)):
        return False
    looks = _has(op, *(g.peephole for g in gates(op) if g.peephole is not None))
    norms = _has(op, *(gate.norm for gate in gates(op)))
    return len(set(looks)) == 1 and len(set(norms)) == 1


def _projection_whole(op: Op) -> bool:
    weights, bias = _has(op, PROJECTION, PROJECTION_BIAS)
    return weights or not bias


def _wanted_dtypes(op: Op) -> dict[int, DType]:
    weights = operand(op, OUTPUT.weights).dtype
    if _is_integer(op):
        return _STORED
    return _FLOATS | dict.fromkeys(_WEIGHTS, weights)


def _dtypes_hold(op: Op) -> bool:
    wanted = _wanted_dtypes(op)
    pairs = ((tensor, wanted[i]) for i, tensor in enumerate(op.inputs))
    return all(tensor is None or tensor.dtype is dtype for tensor, dtype in pairs)


def _constants_hold(op: Op) -> bool:
    live = (0, OUTPUT_STATE, CELL_STATE)
    tensors = (tensor for i, tensor in enumerate(op.inputs) if i not in live)
    return all(tensor is None or tensor.is_constant for tensor in tensors)


def _states_live(op: Op) -> bool:
    states = (operand(op, OUTPUT_STATE), operand(op, CELL_STATE))
    return all(state.is_variable and op.inputs.count(state) == 1 for state in states)


def _sizes_hold(op: Op) -> bool:
    return all(
        tensor is None or tensor.shape == wanted
        for tensor, wanted in ((op.input(i), shape) for i, shape in _wanted_sizes(op))
    )


def _matrices(op: Op) -> bool:
    tensors = (operand(op, OUTPUT.weights), operand(op, OUTPUT.recurrent))
    return all(len(t.shape) == 2 and 0 not in t.shape for t in tensors)


def _wanted_sizes(op: Op) -> Iterator[tuple[int, tuple[int, ...]]]:
    cells, width = operand(op, OUTPUT.weights).static_shape
    height = operand(op, OUTPUT.recurrent).static_shape[1]
    for gate in GATES:
        yield from ((gate.weights, (cells, width)), (gate.recurrent, (cells, height)))
        yield from ((gate.bias, (cells,)), (gate.norm, (cells,)))
        if gate.peephole is not None:
            yield gate.peephole, (cells,)
    yield PROJECTION, (height, cells)
    yield PROJECTION_BIAS, (height,)


def _states_fit(op: Op) -> bool:
    data, state, cell = (operand(op, i) for i in (0, OUTPUT_STATE, CELL_STATE))
    if len(data.shape) < 2 or len(state.shape) != 2:
        return False
    width = operand(op, OUTPUT.weights).static_shape[1]
    sizes = operand(op, OUTPUT.recurrent).static_shape
    batches = state.shape[0]
    fits = data.shape[-1] in (None, width) and data.shape[_batch_axis(op)] in (None, batches)
    kept = state.shape == (batches, sizes[1]) and cell.shape == (batches, sizes[0])
    return fits and kept and 0 not in (*data.shape, *state.shape)


def _batch_axis(op: Op) -> int:
    data = operand(op, 0)
    return 1 if len(data.shape) == 3 and steps_first(op) else 0


def _output_width(op: Op) -> bool:
    cells, width = operand(op, OUTPUT.recurrent).static_shape
    return op.input(PROJECTION) is not None or cells == width


def _is_integer(op: Op) -> bool:
    return operand(op, 0).dtype is DType.INT8


def _scaled_tensors(op: Op) -> Iterator[Tensor]:
    for position in (0, OUTPUT_STATE, CELL_STATE, PROJECTION):
        yield from filter(None, [op.input(position)])
    for gate in gates(op):
        for index in (gate.weights, gate.recurrent, gate.norm, gate.peephole):
            yield from filter(None, [None if index is None else op.input(index)])
    yield from op.intermediates[HIDDEN:]
    if is_normalised(op):
        yield from (op.intermediates[gate.norm - INPUT.norm] for gate in gates(op))


def _quantised(op: Op) -> bool:
    if not _is_integer(op):
        weights = filter(None, map(op.input, _WEIGHTS))
        return all(t.dtype is DType.FLOAT32 or is_affine(t) for t in weights)
    if len(op.intermediates) != HIDDEN + 1:
        return False
    return all(is_affine(tensor) for tensor in _scaled_tensors(op))


def _cell_is_power(op: Op) -> bool:
    if not _is_integer(op):
        return True
    exponent = cell_exponent(op)
    return abs(exponent - round(exponent)) < 1e-3 and -15 <= round(exponent) <= -11


def _factors_hold(op: Op) -> bool:
    """Every factor between scales is one that a 32-bit register can hold."""
    if not _is_integer(op):
        return True
    hidden = scale_of(op.intermediates[HIDDEN])
    factors = [f for gate in gates(op) for f in _gate_factors(op, gate)]
    if op.input(PROJECTION) is not None:
        state = scale_of(operand(op, OUTPUT_STATE))
        factors.append(scale_of(operand(op, PROJECTION)) * hidden / state)
    return all(factor < _FACTOR_LIMIT for factor in (*factors, 2.0**-30 / hidden))


def _gate_factors(op: Op, gate: Gate) -> Iterator[float]:
    scale = gate_scale(op, gate)
    yield scale_of(operand(op, gate.weights)) * scale_of(operand(op, 0)) / scale
    yield scale_of(operand(op, gate.recurrent)) * scale_of(operand(op, OUTPUT_STATE)) / scale
    if gate.peephole is not None and op.input(gate.peephole) is not None:
        yield scale_of(operand(op, gate.peephole)) / scale
    if op.input(gate.norm) is not None:
        yield scale_of(operand(op, gate.norm)) * _NORM_HEADROOM


RULES: tuple[Rule, ...] = (
    Rule("complete", _complete, "weights, biases and states of three gates must be there"),
    Rule("gates_whole", _gates_whole, "input gate, peepholes and norms come whole or not at all"),
    Rule("projection_whole", _projection_whole, "a projection's bias needs its weights"),
    Rule("operand_types", _dtypes_hold, "an operand has another type than the input asks for"),
    Rule("constant_weights", _constants_hold, "weights, biases and coefficients must be constant"),
    Rule("variable_states", _states_live, "the states must be variable tensors of their own"),
    Rule("weights_rank", _matrices, "weights must be matrices with elements"),
    Rule("weights_sizes", _sizes_hold, "weights, biases and coefficients do not fit each other"),
    Rule("states_fit", _states_fit, "input and states do not fit the weights"),
    Rule("output_width", _output_width, "without a projection there is one output for each cell"),
    Rule("quantised", _quantised, "operands and the hidden intermediate need a scale each"),
    Rule("cell_scale", _cell_is_power, "the cell state's scale must be 2**-15 to 2**-11"),
    Rule("factors_in_reach", _factors_hold, "a scale is too small for the others"),
)
