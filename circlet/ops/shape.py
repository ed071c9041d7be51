"""Ops that change only the sizes of a tensor: RESHAPE, SQUEEZE, EXPAND_DIMS."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Origin, Shape, Tensor
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    always,
    count,
    infer_ranked,
    known_ints,
    listed_count,
    operand,
    present,
    when_ranked,
)
from circlet.ops.view import whole_view

_INDEX_TYPES = (DType.INT32, DType.INT64)


@dataclass(frozen=True)
class ReshapeAttrs:
    """Sizes to use where the second input is absent; -1 stands for the rest."""

    new_shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class SqueezeAttrs:
    """Axes of size 1 to drop; all of them when empty."""

    squeeze_dims: tuple[int, ...] = ()


def reshape_target(op: Op) -> tuple[int, ...] | None:
    """The sizes a RESHAPE asks for, -1 included; None where they are computed at run time."""
    if _shape_is_list(op):
        return known_ints(op.input(1))
    target = op.attributes(ReshapeAttrs).new_shape
    return () if target == (0,) else target


def resolved_reshape(source: Shape, target: tuple[int, ...]) -> Shape | None:
    """Output sizes of a reshape, None where element counts cannot agree."""
    if sum(size == -1 for size in target) > 1 or any(size < -1 for size in target):
        return None
    total, known = count(source), prod(size for size in target if size != -1)
    if -1 not in target:
        return target if total is None or total == known else None
    if total is None:
        return tuple(None if size == -1 else size for size in target)
    if known == 0 or total % known:
        return None
    return tuple(total // known if size == -1 else size for size in target)


def _infer_reshape(op: Op) -> list[TensorType]:
    source, target = operand(op, 0), reshape_target(op)
    if target is None:
        return [TensorType(source.dtype, _rank_of_shape_input(op))]
    known = source.shape if source.has_rank else (None,)
    shape = resolved_reshape(known, target)
    if shape is None:
        raise GraphError(f"cannot reshape {source!r} to {list(target)}", where=op.name)
    return [TensorType(source.dtype, shape)]


def _rank_of_shape_input(op: Op) -> Shape:
    """As many unknown sizes as the shape operand has elements, or as the output states."""
    rank = listed_count(op, 1)
    return op.outputs[0].shape if rank is None else (None,) * rank


def _reshape_fits(op: Op) -> bool:
    target = reshape_target(op)
    return (
        target is None
        or not operand(op, 0).has_rank
        or resolved_reshape(operand(op, 0).shape, target) is not None
    )


def _shape_is_list(op: Op) -> bool:
    """Whether the second operand counts; LiteRT reads the options where it has another rank."""
    sizes = op.input(1)
    return sizes is not None and (len(sizes.shape) == 1 or not sizes.has_rank)


def _shape_is_integer(op: Op) -> bool:
    sizes = op.input(1)
    return sizes is None or sizes.dtype in _INDEX_TYPES


def _evaluate_reshape(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source = present(inputs[0])
    target = reshape_target(op)
    if target is None:
        target = tuple(int(size) for size in present(inputs[1]).reshape(-1))
    shape = resolved_reshape(source.shape, target)
    if shape is None:
        raise GraphError(f"cannot reshape {source.shape} to {list(target)}", where=op.name)
    return [source.reshape([size or 0 for size in shape])]


register(
    OpDef(
        kind="RESHAPE",
        attrs=ReshapeAttrs,
        arity=(1, 2),
        dtypes=("* -> *",),
        infer=_infer_reshape,
        evaluate=_evaluate_reshape,
        identity=always,
        view=whole_view,
        shape_inputs=(1,),
        rules=(
            Rule("shape-input", _shape_is_integer, "the new shape must be a list of integers"),
            Rule("elements", _reshape_fits, "both shapes must hold equally many elements"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


def copy_op(source: Tensor, result: Tensor, origin: Origin, sizes: Tensor | None = None) -> Op:
    """An op that copies a tensor to another one; `sizes` holds sizes known at run time only."""
    if sizes is not None:
        return Op("RESHAPE", [source, sizes], [result], ReshapeAttrs(), origin)
    return Op("RESHAPE", [source], [result], ReshapeAttrs(source.static_shape), origin)


def squeezed_axes(op: Op, shape: Shape) -> tuple[int, ...]:
    """The axes a SQUEEZE drops, counted from the front."""
    wanted = op.attributes(SqueezeAttrs).squeeze_dims
    if not wanted:
        return tuple(axis for axis, size in enumerate(shape) if size == 1)
    return tuple(axis + len(shape) if axis < 0 else axis for axis in wanted)


def _infer_squeeze(op: Op) -> list[TensorType]:
    source = operand(op, 0)
    dropped = squeezed_axes(op, source.shape)
    kept = tuple(size for axis, size in enumerate(source.shape) if axis not in dropped)
    return [TensorType(source.dtype, kept)]


def _squeezes_ones(op: Op) -> bool:
    shape = operand(op, 0).shape
    axes = squeezed_axes(op, shape)
    return all(0 <= axis < len(shape) and shape[axis] in (1, None) for axis in axes)


def _evaluate_squeeze(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source = present(inputs[0])
    dropped = squeezed_axes(op, source.shape)
    if any(not 0 <= axis < source.ndim or source.shape[axis] != 1 for axis in dropped):
        raise GraphError(f"axes {list(dropped)} of {source.shape} are not 1", where=op.name)
    return [source.reshape([n for axis, n in enumerate(source.shape) if axis not in dropped])]


register(
    OpDef(
        kind="SQUEEZE",
        attrs=SqueezeAttrs,
        arity=(1, 1),
        dtypes=("* -> *",),
        infer=infer_ranked(_infer_squeeze),
        evaluate=_evaluate_squeeze,
        identity=always,
        view=whole_view,
        rules=(when_ranked("axes", _squeezes_ones, "each dropped axis must have size 1"),),
        quant=QuantRule(same_as_input=True),
    )
)


def _new_axis(op: Op) -> int | None:
    """Where EXPAND_DIMS puts the new axis, counted from the front; None until a run."""
    values, rank = known_ints(op.input(1)), len(operand(op, 0).shape)
    if values is None or len(values) != 1:
        return None
    return values[0] + rank + 1 if values[0] < 0 else values[0]


def _infer_expand_dims(op: Op) -> list[TensorType]:
    source, axis = operand(op, 0), _new_axis(op)
    if axis is None:
        return [TensorType(source.dtype, (None,) * (len(source.shape) + 1))]
    return [TensorType(source.dtype, (*source.shape[:axis], 1, *source.shape[axis:]))]


def _axis_is_one_integer(op: Op) -> bool:
    axis = operand(op, 1)
    return axis.dtype in _INDEX_TYPES and count(axis.shape) in (1, None)


def _new_axis_in_range(op: Op) -> bool:
    axis = _new_axis(op)
    return axis is None or 0 <= axis <= len(operand(op, 0).shape)


def _evaluate_expand_dims(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, axes = present(inputs[0]), present(inputs[1]).reshape(-1)
    if axes.size != 1:
        raise GraphError(f"one axis is needed, {axes.size} are given", where=op.name)
    axis = int(axes[0])
    position = axis + source.ndim + 1 if axis < 0 else axis
    if not 0 <= position <= source.ndim:
        raise GraphError(f"axis {axis} is outside rank {source.ndim}", where=op.name)
    return [np.expand_dims(source, position)]


register(
    OpDef(
        kind="EXPAND_DIMS",
        arity=(2, 2),
        required=2,
        dtypes=("* INT32 -> *", "* INT64 -> *"),
        infer=infer_ranked(_infer_expand_dims),
        evaluate=_evaluate_expand_dims,
        view=whole_view,
        shape_inputs=(1,),
        rules=(
            Rule("axis-input", _axis_is_one_integer, "the axis must be one integer"),
            when_ranked("axis", _new_axis_in_range, "the axis must lie within the new rank"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)
