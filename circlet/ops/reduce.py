"""Reductions along axes: MEAN, SUM, products, extremes, logic, ARG_MAX and ARG_MIN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape
from circlet.ops.opdef import Arrays, Cost, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    QUANTISED,
    affine,
    count,
    infer_ranked,
    known_ints,
    limits,
    operand,
    present,
    same_quant,
    scale_of,
    when_ranked,
    zero_of,
)
from circlet.ops.requantize import multiply_by_quantized_multiplier, quantize_multiplier

_NUMBERS = ("FLOAT32", "FLOAT64", "INT8", "UINT8", "INT16", "INT32", "INT64")


@dataclass(frozen=True)
class ReducerAttrs:
    """Whether reduced axes stay, with size 1."""

    keep_dims: bool = False


def reduced_axes(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, each once, sorted; a scalar has none, whatever they say."""
    if not rank:
        return ()
    return tuple(sorted({axis + rank if axis < 0 else axis for axis in axes}))


def constant_axes(op: Op) -> tuple[int, ...] | None:
    """The axes an op reduces, or None where they are computed at run time."""
    values = known_ints(op.input(1))
    return None if values is None else reduced_axes(values, len(operand(op, 0).shape))


def _keeps_dims(op: Op) -> bool:
    return op.attributes(ReducerAttrs).keep_dims


def _infer_reduce(op: Op) -> list[TensorType]:
    source, axes = operand(op, 0), constant_axes(op)
    if axes is not None:
        return [TensorType(source.dtype, _without(source.shape, axes, _keeps_dims(op)))]
    if _keeps_dims(op):
        return [TensorType(source.dtype, (None,) * len(source.shape))]
    return [TensorType(source.dtype, _stated_or_counted(op, len(source.shape)))]


def _stated_or_counted(op: Op, rank: int) -> Shape:
    """Sizes where axes are known in a run alone: those stated, else as many as axes leave."""
    dropped = count(operand(op, 1).shape)
    if op.outputs[0].has_rank or dropped is None:
        return op.outputs[0].shape
    return (None,) * max(rank - dropped, 0)


def _without(shape: Shape, axes: tuple[int, ...], keep: bool) -> Shape:
    sizes = [(1 if axis in axes else size, axis in axes) for axis, size in enumerate(shape)]
    return tuple(size for size, dropped in sizes if keep or not dropped)


def _axes_in_range(op: Op) -> bool:
    axes, rank = constant_axes(op), len(operand(op, 0).shape)
    return axes is None or all(0 <= axis < rank for axis in axes)


def _axes_at_run(op: Op, inputs: Arrays) -> tuple[int, ...]:
    rank = present(inputs[0]).ndim
    axes = reduced_axes(tuple(int(a) for a in present(inputs[1]).reshape(-1)), rank)
    if not all(0 <= axis < rank for axis in axes):
        raise GraphError(f"axes {list(axes)} are outside rank {rank}", where=op.name)
    return axes


def mean_multiplier(op: Op, elements: int) -> tuple[int, int]:
    """Mantissa and shift of a quantised MEAN: the scales' ratio divided by the element count."""
    mantissa, shift = _ratio(op)
    spare = min(max(elements, 1).bit_length() - 1, 32, 31 + shift)
    wide = (mantissa << spare) // max(elements, 1)
    return int(np.int64(wide).astype(np.int32)), shift - spare


def _ratio(op: Op) -> tuple[int, int]:
    return quantize_multiplier(scale_of(operand(op, 0)) / scale_of(op.outputs[0]))


def _quantised_total(
    op: Op, values: npt.NDArray[np.generic], axes: tuple[int, ...], mean: bool
) -> npt.NDArray[np.generic]:
    """A quantised MEAN or SUM: an int32 sum, centred, requantised once."""
    source, result = operand(op, 0), op.outputs[0]
    elements = prod(values.shape[axis] for axis in axes)
    total = values.sum(axis=axes, dtype=np.int64, keepdims=_keeps_dims(op))
    centred = (total - zero_of(source) * elements).astype(np.int32)
    mantissa, shift = mean_multiplier(op, elements) if mean else _ratio(op)
    scaled = multiply_by_quantized_multiplier(centred, mantissa, shift) + zero_of(result)
    return np.clip(scaled, *limits(result.dtype)).astype(result.dtype.numpy)


def _evaluate_mean(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, axes = present(inputs[0]), _axes_at_run(op, inputs)
    if not values.size:
        raise GraphError("the mean of no elements is not defined", where=op.name)
    if operand(op, 0).dtype in QUANTISED:
        return [np.asarray(_quantised_total(op, values, axes, mean=True))]
    if operand(op, 0).dtype.is_float:
        mean = values.mean(axis=axes, dtype=np.float64, keepdims=_keeps_dims(op))
        return [np.asarray(mean).astype(values.dtype)]
    total = values.sum(axis=axes, dtype=np.int64, keepdims=_keeps_dims(op))
    elements = prod(values.shape[axis] for axis in axes)
    quotient = np.sign(total) * (np.abs(total) // elements)
    return [np.asarray(quotient).astype(values.dtype)]


def _evaluate_sum(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, axes = present(inputs[0]), _axes_at_run(op, inputs)
    if operand(op, 0).dtype in QUANTISED:
        return [np.asarray(_quantised_total(op, values, axes, mean=False))]
    wide = np.float64 if operand(op, 0).dtype.is_float else np.int64
    total = values.sum(axis=axes, dtype=wide, keepdims=_keeps_dims(op))
    return [np.asarray(total).astype(values.dtype)]


def _evaluate_max(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, axes = present(inputs[0]), _axes_at_run(op, inputs)
    dtype = operand(op, 0).dtype
    lowest = -np.inf if dtype.is_float else limits(dtype)[0]
    return [np.asarray(values.max(axis=axes, keepdims=_keeps_dims(op), initial=lowest))]


def _evaluate_min(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, axes = present(inputs[0]), _axes_at_run(op, inputs)
    dtype = operand(op, 0).dtype
    highest = np.inf if dtype.is_float else limits(dtype)[1]
    return [np.asarray(values.min(axis=axes, keepdims=_keeps_dims(op), initial=highest))]


def _evaluate_product(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, axes = present(inputs[0]), _axes_at_run(op, inputs)
    with np.errstate(over="ignore", invalid="ignore"):
        product = values.prod(axis=axes, dtype=values.dtype, keepdims=_keeps_dims(op))
    return [np.asarray(product, values.dtype)]


def _evaluate_any(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, axes = present(inputs[0]), _axes_at_run(op, inputs)
    return [np.asarray(values.any(axis=axes, keepdims=_keeps_dims(op)))]


def _evaluate_all(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, axes = present(inputs[0]), _axes_at_run(op, inputs)
    return [np.asarray(values.all(axis=axes, keepdims=_keeps_dims(op)))]


def reduce_cost(op: Op) -> Cost:
    """One operation per input element."""
    source = operand(op, 0)
    moved = source.size_bytes + op.outputs[0].size_bytes
    return Cost(arithmetic=source.elements, bytes=moved)


_AXES = (
    Rule(
        "axes-input",
        lambda op: len(operand(op, 1).shape) <= 1,
        "the axes must be a list of integers",
    ),
    when_ranked("axes", _axes_in_range, "each axis must exist in the input"),
)
_INT16_CENTRED = Rule(
    "int16-centred",
    lambda op: (
        operand(op, 0).dtype != DType.INT16
        or (zero_of(operand(op, 0)) == 0 and zero_of(op.outputs[0]) == 0)
    ),
    "int16 values need zero points of 0",
)
_FACTOR_IN_REACH = Rule(
    "output-scale",
    lambda op: operand(op, 0).dtype not in QUANTISED or -31 <= _ratio(op)[1] <= 30,
    "the scales of input and output are too far apart",
)
_NOT_EMPTY = Rule(
    "not-empty",
    lambda op: count(operand(op, 0).shape) != 0,
    "the input must have elements",
)


def _reducer(
    kind: str,
    evaluate: Callable[[Op, Arrays], list[np.ndarray]],
    rules: tuple[Rule, ...],
    requantises: bool,
    types: tuple[str, ...] = _NUMBERS,
) -> None:
    register(
        OpDef(
            kind=kind,
            attrs=ReducerAttrs,
            arity=(2, 2),
            required=2,
            dtypes=tuple(f"{name} INT32 -> {name}" for name in types),
            infer=infer_ranked(_infer_reduce),
            evaluate=evaluate,
            shape_inputs=(1,),
            rules=(*_AXES, *rules),
            numerics="exact",
            quant=QuantRule(same_as_input=not requantises),
            cost=reduce_cost,
        )
    )


_REQUANTISED = (affine(0), _INT16_CENTRED, _FACTOR_IN_REACH)
_reducer("MEAN", _evaluate_mean, (_NOT_EMPTY, *_REQUANTISED), requantises=True)
_reducer("SUM", _evaluate_sum, _REQUANTISED, requantises=True)
_reducer("REDUCE_MAX", _evaluate_max, (same_quant(),), requantises=False)
_reducer("REDUCE_MIN", _evaluate_min, (same_quant(),), requantises=False)
_reducer("REDUCE_PROD", _evaluate_product, (), False, ("FLOAT32", "FLOAT64", "INT32", "INT64"))
_reducer("REDUCE_ANY", _evaluate_any, (), False, ("BOOL",))
_reducer("REDUCE_ALL", _evaluate_all, (), False, ("BOOL",))


@dataclass(frozen=True)
class ArgAttrs:
    """Type of the positions."""

    output_type: str = "FLOAT32"


def _infer_arg(op: Op) -> list[TensorType]:
    source, axes = operand(op, 0), constant_axes(op)
    dtype = DType(op.attributes(ArgAttrs).output_type)
    if axes is None or len(axes) != 1:
        return [TensorType(dtype, (None,) * max(len(source.shape) - 1, 0))]
    return [TensorType(dtype, _without(source.shape, axes, keep=False))]


def _one_axis(op: Op) -> bool:
    axes = operand(op, 1)
    return count(axes.shape) in (1, None) and len(operand(op, 0).shape) > 0


def _axis_not_empty(op: Op) -> bool:
    axes, shape = constant_axes(op), operand(op, 0).shape
    return axes is None or all(shape[axis] != 0 for axis in axes)


def _arg(choose: Callable[..., np.ndarray]) -> Callable[[Op, Arrays], list[np.ndarray]]:
    def evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
        values, axes = present(inputs[0]), _axes_at_run(op, inputs)
        if len(axes) != 1 or values.shape[axes[0]] == 0:
            raise GraphError(f"no elements along axes {list(axes)}", where=op.name)
        return [np.asarray(choose(values, axis=axes[0])).astype(op.outputs[0].dtype.numpy)]

    return evaluate


def _arg_reducer(kind: str, choose: Callable[..., np.ndarray]) -> None:
    forms = (
        f"{name} {axis} -> {out}"
        for name in ("FLOAT32", "FLOAT64", "INT8", "UINT8", "INT32", "INT64", "BOOL")
        for axis in ("INT32", "INT64")
        for out in ("INT32", "INT64")
    )
    register(
        OpDef(
            kind=kind,
            attrs=ArgAttrs,
            arity=(2, 2),
            required=2,
            dtypes=tuple(forms),
            infer=infer_ranked(_infer_arg),
            evaluate=_arg(choose),
            rules=(
                when_ranked("one-axis", _one_axis, "the input must have axes, one is reduced"),
                when_ranked("axes", _axes_in_range, "the axis must exist in the input"),
                when_ranked("not-empty", _axis_not_empty, "the axis must have elements"),
                Rule(
                    "output-type",
                    lambda op: op.attributes(ArgAttrs).output_type == op.outputs[0].dtype.name,
                    "the output must have the type that the options name",
                ),
            ),
            cost=reduce_cost,
        )
    )


_arg_reducer("ARG_MAX", np.argmax)
_arg_reducer("ARG_MIN", np.argmin)
