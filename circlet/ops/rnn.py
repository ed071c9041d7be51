"""RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN: plain cells with a kept state.

output = state = activation(input weights + auxiliary input weights + state weights + bias); with
8-bit weights each vector meets them quantised by its own range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Op, Shape, Tensor
from circlet.ops import checks
from circlet.ops.guard import look
from circlet.ops.lstm_float import Floats, activated, rows_product
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import is_affine, moves_bytes, operand, present
from circlet.ops.requantize import activation_of

ACTIVATIONS = (*checks.ACTIVATIONS, "TANH")
AUX_INPUT = 9
_WEIGHTS = (DType.FLOAT32, DType.INT8, DType.UINT8)
_TWO = "BIDIRECTIONAL_SEQUENCE_RNN"
_FORMS = ("FLOAT32 FLOAT32 FLOAT32", "FLOAT32 INT8 INT8", "FLOAT32 UINT8 UINT8")


@dataclass(frozen=True)
class RnnAttrs:
    """Options of RNN."""

    activation: str = "NONE"
    asymmetric_quantize_inputs: bool = False


@dataclass(frozen=True)
class SequenceRnnAttrs(RnnAttrs):
    """Options of UNIDIRECTIONAL_SEQUENCE_RNN."""

    time_major: bool = False


@dataclass(frozen=True)
class BidirectionalRnnAttrs(SequenceRnnAttrs):
    """Options of BIDIRECTIONAL_SEQUENCE_RNN; merged outputs stand side by side in one."""

    merge_outputs: bool = False


@dataclass(frozen=True)
class Layer:
    """Operands of one direction, by position; None where it has no auxiliary input."""

    weights: int
    recurrent: int
    bias: int
    state: int
    data: int = 0
    aux_weights: int | None = None
    is_turned: bool = False


def layers_of(op: Op) -> tuple[Layer, ...]:
    """The directions of an op, the forward one first.

    An auxiliary input without weights is what the backward direction reads, as LiteRT has it: where
    time comes first only.
    """
    if op.kind != _TWO:
        return (Layer(1, 2, 3, 4),)
    if op.input(AUX_INPUT + 1) is not None:
        return Layer(1, 2, 3, 4, 0, 10), Layer(5, 6, 7, 8, 0, 11, True)
    own = AUX_INPUT if op.input(AUX_INPUT) is not None and steps_first(op) else 0
    return Layer(1, 2, 3, 4), Layer(5, 6, 7, 8, own, None, True)


def steps_first(op: Op) -> bool:
    """Whether the input's first dimension is time."""
    return isinstance(op.attrs, SequenceRnnAttrs) and op.attrs.time_major


def merges(op: Op) -> bool:
    """Whether both directions share one output."""
    return isinstance(op.attrs, BidirectionalRnnAttrs) and op.attrs.merge_outputs


def units_of(op: Op, layer: Layer) -> int:
    """Cells of a direction."""
    return operand(op, layer.weights).static_shape[0]


def is_hybrid(op: Op) -> bool:
    """Whether weights have 8 bits."""
    return operand(op, 1).dtype is not DType.FLOAT32


def _infer(op: Op) -> list[TensorType]:
    data = operand(op, 0)
    units = [units_of(op, layer) for layer in layers_of(op)]
    widths = [sum(units)] if merges(op) else units
    sizes: list[Shape] = [(*data.shape[:-1], width) for width in widths]
    return [TensorType(data.dtype, shape) for shape in sizes]


def _steps(op: Op, array: np.ndarray) -> np.ndarray:
    """[time, batch, width] of an operand, or of a result, in its own order; its own inverse."""
    if array.ndim == 2:
        return array[None]
    return array if steps_first(op) else np.swapaxes(array, 0, 1)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    rows, states = [], []
    for layer in layers_of(op):
        made, state = _run(op, arrays, layer)
        rows.append(made[0] if present(arrays[0]).ndim == 2 else _steps(op, made))
        states.append(state)
    outputs = [np.concatenate(rows, axis=-1)] if merges(op) else rows
    return [np.ascontiguousarray(array, np.float32) for array in (*outputs, *states)]


def _run(op: Op, arrays: Arrays, layer: Layer) -> tuple[Floats, Floats]:
    """Outputs of [time, batch, units], and the state behind the last step."""
    data, state = _steps(op, present(arrays[layer.data])), present(arrays[layer.state])
    aux = None if layer.aux_weights is None else _steps(op, present(arrays[AUX_INPUT]))
    order = range(len(data))[:: -1 if layer.is_turned else 1]
    made = np.zeros((*data.shape[:2], units_of(op, layer)), np.float32)
    for _ in range(turns(op, len(data))):
        for time in order:
            look()
            total = _product(op, layer.weights, arrays, data[time])
            if aux is not None and layer.aux_weights is not None:
                total = total + _product(op, layer.aux_weights, arrays, aux[time])
            total = total + _product(op, layer.recurrent, arrays, state)
            total = (total + present(arrays[layer.bias])).astype(np.float32)
            state = made[time] = activated(total, activation_of(op))
    return made, state


def turns(op: Op, steps: int) -> int:
    """How often LiteRT goes through a sequence: with 8-bit weights once for each of its steps."""
    return steps if op.kind == _TWO and is_hybrid(op) and steps_first(op) else 1


def _product(op: Op, position: int, arrays: Arrays, rows: Floats) -> Floats:
    asymmetric = op.attributes(RnnAttrs).asymmetric_quantize_inputs
    return rows_product(op, position, present(arrays[position]), rows, asymmetric=asymmetric)


def _constants(op: Op) -> Iterator[Tensor | None]:
    for layer in layers_of(op):
        yield from (op.input(i) for i in (layer.weights, layer.recurrent, layer.bias))
        if layer.aux_weights is not None:
            yield op.input(layer.aux_weights)


def _aux_whole(op: Op) -> bool:
    data, *weights = (op.input(AUX_INPUT + i) is not None for i in range(3))
    return len(set(weights)) == 1 and (data or not any(weights))


def _types_hold(op: Op) -> bool:
    stored = operand(op, 1).dtype
    weights = {i for x in layers_of(op) for i in (x.weights, x.recurrent, x.aux_weights)}
    pairs = ((t, stored if i in weights else DType.FLOAT32) for i, t in enumerate(op.inputs))
    return stored in _WEIGHTS and all(t is None or t.dtype is wanted for t, wanted in pairs)


def _constants_hold(op: Op) -> bool:
    return all(tensor is None or tensor.is_constant for tensor in _constants(op))


def _states_live(op: Op) -> bool:
    states = [operand(op, layer.state) for layer in layers_of(op)]
    return all(state.is_variable and op.inputs.count(state) == 1 for state in states)


def _sizes_hold(op: Op) -> bool:
    data = operand(op, 0)
    matrices = [operand(op, x.weights) for x in layers_of(op)]
    if any(len(t.shape) != 2 or 0 in t.shape for t in matrices) or 0 in data.shape:
        return False
    aux = op.input(AUX_INPUT)
    if aux is not None and not _same(aux.shape[:-1], data.shape[:-1]):
        return False
    return all(_layer_holds(op, layer) for layer in layers_of(op))


def _layer_holds(op: Op, layer: Layer) -> bool:
    units, width = operand(op, layer.weights).static_shape
    data, state = operand(op, layer.data), operand(op, layer.state)
    batch = data.shape[1 if len(data.shape) == 3 and steps_first(op) else 0]
    if layer.aux_weights is not None:
        aux, weights = operand(op, AUX_INPUT), operand(op, layer.aux_weights)
        if len(weights.shape) != 2 or not _same(weights.shape, (units, aux.shape[-1])):
            return False
    return (
        operand(op, layer.recurrent).shape == (units, units)
        and operand(op, layer.bias).shape == (units,)
        and data.shape[-1] in (None, width)
        and len(state.shape) == 2
        and _same(state.shape, (batch, units))
        and 0 not in state.shape
    )


def _same(left: Shape, right: Shape) -> bool:
    pairs = zip(left, right, strict=False)
    return len(left) == len(right) and all(a == b or None in (a, b) for a, b in pairs)


def _quantised(op: Op) -> bool:
    weights = (t for t in _constants(op) if t is not None)
    return all(t.dtype is DType.FLOAT32 or is_affine(t) for t in weights)


def _outputs_hold(op: Op) -> bool:
    return len(op.outputs) == (1 if merges(op) or op.kind != _TWO else 2)


def _cost(op: Op) -> Cost:
    vectors = operand(op, 0).elements // max(operand(op, 0).static_shape[-1], 1)
    weights = [t for t in _constants(op) if t is not None]
    steps = operand(op, 0).static_shape[0]
    rows = sum(tensor.elements for tensor in weights) * vectors
    return Cost(rows * turns(op, steps), moves_bytes(op).bytes)


_RULES = (
    Rule("outputs_count", _outputs_hold, "it has another number of outputs"),
    checks.one_of("activation", ACTIVATIONS),
    Rule("operand_types", _types_hold, "an operand has another type than the weights ask for"),
    Rule("constant_weights", _constants_hold, "weights and biases must be constant"),
    Rule("variable_states", _states_live, "the states must be variable tensors of their own"),
    Rule("sizes", _sizes_hold, "input, weights, biases and states do not fit each other"),
    Rule("quantised", _quantised, "weights of 8 bits need a scale each"),
)
_AUX = Rule("aux_whole", _aux_whole, "both directions have weights of the auxiliary input, or none")


def _record(kind: str, attrs: type, rank: int, own: tuple[Rule, ...] = ()) -> OpDef:
    two = kind == _TWO
    return OpDef(
        kind=kind,
        attrs=attrs,
        arity=(9, 12) if two else (5, 5),
        required=9 if two else 5,
        outputs=None if two else 1,
        dtypes=tuple(f"{form} -> FLOAT32" for form in _FORMS),
        infer=_infer,
        rules=(checks.rank_is(0, rank, "input"), *own, *_RULES),
        evaluate=_evaluate,
        numerics="tolerance",
        cost=_cost,
        updates=(4, 8) if two else (4,),
    )


RNN = register(_record("RNN", RnnAttrs, 2))
register(_record("UNIDIRECTIONAL_SEQUENCE_RNN", SequenceRnnAttrs, 3))
register(_record(_TWO, BidirectionalRnnAttrs, 3, (_AUX,)))
