"""INSTANCE_NORM and RMS_NORM, which only Circle files hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.ir import Op, Tensor
from circlet.ops import checks
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.decomposition import Parts
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, register
from circlet.ops.operands import moves_bytes, operand, present, same_as_first
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.requantize import activate_float, activation_of

_FLOATS = "FLOAT32 FLOAT32 FLOAT32 -> FLOAT32"
_STEPS = 8  # of an element that is normalised


@dataclass(frozen=True)
class InstanceNormAttrs:
    """What is added to the variance, and what the result is clamped to."""

    epsilon: float = 0.0
    activation: str = "NONE"


@dataclass(frozen=True)
class RmsNormAttrs:
    """What is added to the mean of squares."""

    epsilon: float = 0.0


def _channel_axis(op: Op) -> int:
    """Images [n, h, w, c] have channels last, sequences [n, c, d] in the middle, as ONE has it."""
    return 3 if len(operand(op, 0).shape) == 4 else 1


def _normalised_axes(op: Op) -> tuple[int, ...]:
    return (1, 2) if len(operand(op, 0).shape) == 4 else (2,)


def _last_axis(op: Op) -> int:
    return len(operand(op, 0).shape) - 1


def _scale_fits(op: Op, axis: int) -> bool:
    channels = operand(op, 0).shape[axis]
    given = [tensor for tensor in op.inputs[1:] if tensor is not None]
    return all(len(t.shape) == 1 and _one_of(t.shape[0], (1, channels)) for t in given)


def _one_of(size: int | None, allowed: tuple[int | None, ...]) -> bool:
    return size is None or None in allowed or size in allowed


def _finite(op: Op) -> bool:
    epsilon = vars(op.attrs)["epsilon"]
    return bool(0 <= epsilon < float("inf"))


_EPSILON = Rule("epsilon", _finite, "epsilon must be a finite number, 0 or more", sized=False)


def _cost(op: Op) -> Cost:
    return Cost(bytes=moves_bytes(op).bytes, arithmetic=_STEPS * operand(op, 0).elements)


def _by_channel(values: np.ndarray, rank: int, axis: int) -> npt.NDArray[np.float64]:
    sizes = [1] * rank
    sizes[axis] = values.size
    return values.astype(np.float64).reshape(sizes)


def _evaluate_instance(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Sums in double, as ONE's kernels form them."""
    x = present(arrays[0]).astype(np.float64)
    axes, attrs = _normalised_axes(op), op.attributes(InstanceNormAttrs)
    gamma, beta = (_by_channel(present(array), x.ndim, _channel_axis(op)) for array in arrays[1:3])
    centred = x - x.mean(axes, keepdims=True)
    variance = np.square(centred).mean(axes, keepdims=True)
    result = centred * (gamma / np.sqrt(variance + np.float32(attrs.epsilon))) + beta
    return [activate_float(result.astype(np.float32), attrs.activation)]


def _decompose_instance(op: Op) -> list[Op]:
    """The mean of squared differences instead of that of squares, so that floats are enough."""
    x, attrs = operand(op, 0), op.attributes(InstanceNormAttrs)
    if _channel_axis(op) == 1 and any(t is None or None in t.shape for t in op.inputs[1:]):
        return []
    parts, keep = Parts(op), ReducerAttrs(keep_dims=True)
    axes = parts.constant(np.array(_normalised_axes(op), np.int32))
    gamma, beta = (_beside(parts, operand(op, index), _channel_axis(op)) for index in (1, 2))
    mean = parts.make("MEAN", [x, axes], keep)
    squares = parts.make("SQUARED_DIFFERENCE", [x, mean])
    variance = parts.make("MEAN", [squares, axes], keep)
    shifted = parts.make("ADD", [variance, parts.scalar(attrs.epsilon)])
    factor = parts.make("MUL", [parts.make("RSQRT", [shifted]), gamma])
    scaled = parts.make("MUL", [parts.make("SUB", [x, mean]), factor])
    parts.make("ADD", [scaled, beta], AddAttrs(activation_of(op)), op.outputs[0])
    return parts.ops


def _beside(parts: Parts, values: Tensor, axis: int) -> Tensor:
    """One value for each channel, in sizes that broadcast along the channels."""
    return values if axis == 3 else parts.reshape(values, (-1, 1))


def _evaluate_rms(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Sums in double, as ONE's kernels form them."""
    x, gamma = present(arrays[0]).astype(np.float64), present(arrays[1]).astype(np.float64)
    beta = arrays[2].astype(np.float64) if len(arrays) > 2 and arrays[2] is not None else 0.0
    epsilon = np.float32(op.attributes(RmsNormAttrs).epsilon)
    root = np.sqrt(np.square(x).mean(-1, keepdims=True) + epsilon)
    return [(gamma * (x / root) + beta).astype(np.float32)]


def _decompose_rms(op: Op) -> list[Op]:
    x, beta = operand(op, 0), op.input(2)
    parts, axis = Parts(op), _last_axis(op)
    squares = parts.make("MUL", [x, x])
    last = parts.constant(np.array([axis], np.int32))
    mean = parts.make("MEAN", [squares, last], ReducerAttrs(keep_dims=True))
    shifted = parts.make("ADD", [mean, parts.scalar(op.attributes(RmsNormAttrs).epsilon)])
    unit = parts.make("MUL", [x, parts.make("RSQRT", [shifted])])
    scaled = parts.make("MUL", [unit, operand(op, 1)], result=None if beta else op.outputs[0])
    if beta:
        parts.make("ADD", [scaled, beta], result=op.outputs[0])
    return parts.ops


register(
    OpDef(
        kind="INSTANCE_NORM",
        attrs=InstanceNormAttrs,
        arity=(3, 3),
        required=3,
        dtypes=(_FLOATS,),
        infer=same_as_first,
        rules=(
            Rule(
                "input_rank",
                lambda op: len(operand(op, 0).shape) in (3, 4),
                "the input must be [n, h, w, channels] or [n, channels, d]",
            ),
            Rule(
                "channels",
                lambda op: _scale_fits(op, _channel_axis(op)),
                "gamma and beta must be lists of one value, or of one for each channel",
            ),
            checks.one_of("activation", checks.ACTIVATIONS),
            _EPSILON,
        ),
        evaluate=_evaluate_instance,
        numerics="tolerance",
        cost=_cost,
        decompose=_decompose_instance,
    )
)

register(
    OpDef(
        kind="RMS_NORM",
        attrs=RmsNormAttrs,
        arity=(2, 3),
        required=2,
        dtypes=(_FLOATS, "FLOAT32 FLOAT32 _ -> FLOAT32"),
        infer=same_as_first,
        rules=(
            Rule(
                "input_rank",
                lambda op: len(operand(op, 0).shape) >= 1,
                "the input must have a dimension to normalise",
            ),
            Rule(
                "channels",
                lambda op: _scale_fits(op, _last_axis(op)),
                "gamma and beta must be lists of one value, or of one for each channel",
            ),
            _EPSILON,
        ),
        evaluate=_evaluate_rms,
        numerics="tolerance",
        cost=_cost,
        decompose=_decompose_rms,
    )
)
