"""SVDF: a filter over features, then one over the features' recent past, which is kept.

Floats meet feature weights of 8 bits quantised by their own range; the past then stays in floats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.ir import DType, Op, Shape
from circlet.ops import checks
from circlet.ops.lstm_float import real_vector, rows_product
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import is_affine, limits, moves_bytes, operand, present, scale_of, zero_of
from circlet.ops.requantize import (
    activate_float,
    activation_of,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    wrap_int32,
)

FEATURES, TIME, BIAS, STATE = 1, 2, 3, 4
_FACTOR_LIMIT = 2.0**30


@dataclass(frozen=True)
class SvdfAttrs:
    """Options of SVDF."""

    rank: int = 0
    activation: str = "NONE"
    asymmetric_quantize_inputs: bool = False


@dataclass(frozen=True)
class Sizes:
    """Sizes of an SVDF: `filters` rows of weights, `units` outputs, `memory` kept steps."""

    batches: int
    inputs: int
    filters: int
    units: int
    memory: int


def sizes_of(op: Op) -> Sizes:
    """The sizes of an op that keeps the rules."""
    filters, width = operand(op, FEATURES).static_shape
    memory = operand(op, TIME).static_shape[1]
    batches = operand(op, STATE).static_shape[0]
    return Sizes(batches, width, filters, filters // op.attributes(SvdfAttrs).rank, memory)


def is_hybrid(op: Op) -> bool:
    """Whether floats meet weights of 8 bits."""
    stored = operand(op, FEATURES).dtype is not DType.FLOAT32
    return stored and operand(op, 0).dtype is DType.FLOAT32


def factors_of(op: Op) -> tuple[tuple[int, int], tuple[int, int]]:
    """Fixed-point factors from products to the state, and from sums over time to the output."""
    first, second = _real_factors(op)
    return quantize_multiplier(first), quantize_multiplier(second)


def _real_factors(op: Op) -> tuple[float, float]:
    scales = [scale_of(operand(op, i)) for i in (0, FEATURES, STATE, TIME)]
    data, features, state, time = (np.float64(scale) for scale in scales)
    return data * features / state, state * time / scale_of(op.outputs[0])


def _infer(op: Op) -> list[TensorType]:
    data = operand(op, 0)
    sizes: Shape = (data.shape[0], sizes_of(op).units)
    return [TensorType(data.dtype, sizes)]


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    sizes = sizes_of(op)
    x, features, time, state = (present(arrays[i]) for i in (0, FEATURES, TIME, STATE))
    older = state.reshape(sizes.batches, sizes.filters, sizes.memory)[..., 1:]
    newest = _newest(op, x, features).astype(state.dtype)
    kept = np.concatenate([older, newest[..., None]], axis=-1)
    total = _over_time(op, kept, time).reshape(sizes.batches, sizes.units, -1).sum(axis=-1)
    bias = arrays[BIAS]
    if bias is not None:
        total = total + bias.reshape(-1)
    return [_finished(op, total), kept.reshape(state.shape)]


def _newest(op: Op, x: np.ndarray, features: np.ndarray) -> np.ndarray:
    """What the feature filters make of the input, on the state's scale."""
    if x.dtype == np.float32:
        asymmetric = op.attributes(SvdfAttrs).asymmetric_quantize_inputs
        return rows_product(op, FEATURES, features, x, asymmetric=asymmetric)
    centred = x.astype(np.float64) - zero_of(operand(op, 0))
    total = wrap_int32(centred @ features.astype(np.float64).T)
    state = operand(op, STATE)
    scaled = multiply_by_quantized_multiplier(total, *factors_of(op)[0]) + zero_of(state)
    return np.clip(scaled, *limits(state.dtype))


def _over_time(op: Op, kept: np.ndarray, time: np.ndarray) -> np.ndarray:
    if kept.dtype == np.float32:
        weights = real_vector(op, TIME, time)
        weighted: np.ndarray = (kept * weights).sum(axis=-1, dtype=np.float32)
        return weighted
    centred = kept.astype(np.int64) - zero_of(operand(op, STATE))
    return wrap_int32((centred * time).sum(axis=-1))


def _finished(op: Op, total: npt.NDArray[np.generic]) -> np.ndarray:
    result = op.outputs[0]
    if result.dtype is DType.FLOAT32:
        activation = activation_of(op)
        return activate_float(np.asarray(total, np.float32), activation)
    sums = wrap_int32(np.asarray(total, np.int64))
    scaled = multiply_by_quantized_multiplier(sums, *factors_of(op)[1]) + zero_of(result)
    return np.clip(scaled, *limits(result.dtype)).astype(result.dtype.numpy)


def _shapes_hold(op: Op) -> bool:
    features, time, state, bias = (op.input(i) for i in (FEATURES, TIME, STATE, BIAS))
    if features is None or time is None or state is None or len(features.shape) != 2:
        return False
    filters, width = features.static_shape
    data, rank = operand(op, 0), op.attributes(SvdfAttrs).rank
    if 0 in features.shape or filters % rank or len(time.shape) != 2 or len(data.shape) != 2:
        return False
    memory = time.static_shape[1]
    fits = time.shape == (filters, memory) and memory > 0 and data.shape[1] in (None, width)
    batches = state.shape[0] if len(state.shape) == 2 else 0
    kept = state.shape == (batches, memory * filters) and 0 not in state.shape
    kept = kept and data.shape[0] in (None, batches)
    return fits and kept and (bias is None or bias.shape == (filters // rank,))


def _operands_hold(op: Op) -> bool:
    weights = [op.input(i) for i in (FEATURES, TIME, BIAS)]
    constant = all(tensor is None or tensor.is_constant for tensor in weights)
    state = operand(op, STATE)
    return constant and state.is_variable and op.inputs.count(state) == 1


def _types_hold(op: Op) -> bool:
    features, time, state = (operand(op, i).dtype for i in (FEATURES, TIME, STATE))
    if is_hybrid(op):
        return time is features and state is DType.FLOAT32
    return state is time


def _quantised(op: Op) -> bool:
    if is_hybrid(op):
        return is_affine(operand(op, FEATURES)) and is_affine(operand(op, TIME))
    if operand(op, 0).dtype is DType.FLOAT32:
        return True
    tensors = [*(operand(op, i) for i in (0, FEATURES, TIME, STATE)), op.outputs[0]]
    if not all(is_affine(tensor) for tensor in tensors):
        return False
    wide = operand(op, STATE).dtype is DType.INT16
    return max(_real_factors(op)) < _FACTOR_LIMIT and not (wide and zero_of(operand(op, STATE)))


def _activation_holds(op: Op) -> bool:
    stored = operand(op, 0).dtype is DType.INT8
    return not stored or activation_of(op) == "RELU"


def _cost(op: Op) -> Cost:
    sizes = sizes_of(op)
    return Cost(
        sizes.batches * sizes.filters * (sizes.inputs + sizes.memory), moves_bytes(op).bytes
    )


SVDF = register(
    OpDef(
        kind="SVDF",
        attrs=SvdfAttrs,
        arity=(5, 5),
        required=3,
        dtypes=tuple(
            f"{form} -> {form.split()[0]}"
            for types in (
                "FLOAT32 FLOAT32 FLOAT32 {} FLOAT32",
                "FLOAT32 INT8 INT8 {} FLOAT32",
                "FLOAT32 UINT8 UINT8 {} FLOAT32",
                "INT8 INT8 INT8 {} INT8",
                "INT8 INT8 INT16 {} INT16",
            )
            for bias in (("FLOAT32" if "FLOAT" in types else "INT32"), "_")
            for form in [types.format(bias)]
        ),
        infer=_infer,
        rules=(
            Rule("state_given", lambda op: op.input(STATE) is not None, "the state is missing"),
            checks.at_least(("rank",), 1),
            checks.one_of("activation", checks.ACTIVATIONS),
            Rule("sizes", _shapes_hold, "input, weights, bias and state do not fit each other"),
            Rule(
                "operands",
                _operands_hold,
                "weights must be constant, the state a variable of its own",
            ),
            Rule("time_type", _types_hold, "state and time weights have types that do not fit"),
            Rule(
                "quantised", _quantised, "every operand needs a scale, within reach of the others"
            ),
            Rule(
                "activation", _activation_holds, "integer SVDF takes RELU, which its range implies"
            ),
        ),
        evaluate=_evaluate,
        cost=_cost,
        updates=(STATE,),
    )
)
