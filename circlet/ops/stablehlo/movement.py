"""StableHLO kinds that move elements: reshapes, slices, broadcasts, IOTA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType
from circlet.ops.operands import (
    count,
    operand,
    present,
    sizes_agree,
    when_ranked,
)
from circlet.ops.stablehlo.types import (
    MANY,
    NUMBERS,
    as_stated,
    define,
    distinct_axes,
    is_static,
)

_STATIC = Rule(
    "result-sizes", lambda op: is_static(op.outputs[0].shape), "the result's sizes must be known"
)


def _counts_agree(op: Op) -> bool:
    given, made = count(operand(op, 0).shape), count(op.outputs[0].shape)
    return given is None or made is None or given == made


def _to_stated(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, sizes = present(inputs[0]), op.outputs[0].static_shape
    try:
        return [source.reshape(sizes)]
    except ValueError as error:
        raise GraphError("a reshape does not fit", where=op.name, why=str(error)) from None


define(
    OpDef(
        kind="STABLEHLO_RESHAPE",
        arity=(1, 1),
        dtypes=("* -> *",),
        infer=lambda op: [TensorType(operand(op, 0).dtype, op.outputs[0].shape)],
        evaluate=_to_stated,
        rules=(
            _STATIC,
            when_ranked("elements", _counts_agree, "both shapes must hold equally many elements"),
        ),
    )
)


@dataclass(frozen=True)
class TransposeAttrs:
    """The source axis of each axis of the result."""

    permutation: tuple[int, ...] = ()


def _permutes(op: Op) -> bool:
    order = op.attributes(TransposeAttrs).permutation
    return sorted(order) == list(range(len(operand(op, 0).shape)))


def _infer_transpose(op: Op) -> list[TensorType]:
    source, order = operand(op, 0), op.attributes(TransposeAttrs).permutation
    return [TensorType(source.dtype, tuple(source.shape[axis] for axis in order))]


define(
    OpDef(
        kind="STABLEHLO_TRANSPOSE",
        attrs=TransposeAttrs,
        arity=(1, 1),
        dtypes=("* -> *",),
        infer=_infer_transpose,
        evaluate=lambda op, inputs: [
            present(inputs[0]).transpose(op.attributes(TransposeAttrs).permutation).copy()
        ],
        rules=(when_ranked("permutation", _permutes, "the permutation must hold each axis once"),),
    )
)


@dataclass(frozen=True)
class SliceAttrs:
    """Where the slice of each axis starts and ends, and its steps."""

    start_indices: tuple[int, ...] = ()
    limit_indices: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


def slice_rows(op: Op) -> list[tuple[int, int, int]]:
    """Start, limit and stride of each axis."""
    attrs = op.attributes(SliceAttrs)
    return list(zip(attrs.start_indices, attrs.limit_indices, attrs.strides, strict=True))


def _lists_fit(op: Op) -> bool:
    attrs, rank = op.attributes(SliceAttrs), len(operand(op, 0).shape)
    return len(attrs.start_indices) == len(attrs.limit_indices) == len(attrs.strides) == rank


def _ranges_fit(op: Op) -> bool:
    rows = zip(slice_rows(op), operand(op, 0).shape, strict=True)
    return all(
        0 <= start <= limit and (size is None or limit <= size) and step >= 1
        for (start, limit, step), size in rows
    )


def _infer_slice(op: Op) -> list[TensorType]:
    sizes = tuple(-((start - limit) // step) for start, limit, step in slice_rows(op))
    return [TensorType(operand(op, 0).dtype, sizes)]


define(
    OpDef(
        kind="STABLEHLO_SLICE",
        attrs=SliceAttrs,
        arity=(1, 1),
        dtypes=("* -> *",),
        infer=_infer_slice,
        evaluate=lambda op, inputs: [
            present(inputs[0])[tuple(slice(*row) for row in slice_rows(op))].copy()
        ],
        rules=(
            when_ranked("lists", _lists_fit, "there must be a start, limit and stride per axis"),
            when_ranked("ranges", _ranges_fit, "slices must lie within the input, steps be 1 up"),
        ),
    )
)


@dataclass(frozen=True)
class ConcatenateAttrs:
    """The axis along which operands follow each other."""

    dimension: int = 0


def _parts_fit(op: Op) -> bool:
    axis = op.attributes(ConcatenateAttrs).dimension
    shapes = [operand(op, index).shape for index in range(len(op.inputs))]
    ranks = {len(shape) for shape in shapes}
    if len(ranks) != 1 or not 0 <= axis < len(shapes[0]):
        return False
    rest = [(*shape[:axis], *shape[axis + 1 :]) for shape in shapes]
    return all(sizes_agree(rest[0], other) for other in rest)


def _infer_concatenate(op: Op) -> list[TensorType]:
    axis = op.attributes(ConcatenateAttrs).dimension
    shapes = [operand(op, index).shape for index in range(len(op.inputs))]
    along = [shape[axis] for shape in shapes]
    total = None if None in along else sum(size or 0 for size in along)
    columns = [
        next((n for n in sizes if n is not None), None) for sizes in zip(*shapes, strict=True)
    ]
    columns[axis] = total
    return [TensorType(operand(op, 0).dtype, tuple(columns))]


def _one_type(op: Op) -> bool:
    return None not in op.inputs and len({t.dtype for t in op.inputs if t is not None}) == 1


define(
    OpDef(
        kind="STABLEHLO_CONCATENATE",
        attrs=ConcatenateAttrs,
        arity=(1, MANY),
        dtypes=("* -> *",),
        infer=_infer_concatenate,
        evaluate=lambda op, inputs: [
            np.concatenate([*map(present, inputs)], op.attributes(ConcatenateAttrs).dimension)
        ],
        rules=(
            Rule("types", _one_type, "all parts must be given and have one element type"),
            when_ranked("parts", _parts_fit, "sizes beside the axis must be equal"),
        ),
    )
)


@dataclass(frozen=True)
class BroadcastAttrs:
    """The axis of the result that each axis of the operand becomes."""

    broadcast_dimensions: tuple[int, ...] = ()


def _spreads(op: Op) -> bool:
    axes, source = op.attributes(BroadcastAttrs).broadcast_dimensions, operand(op, 0).shape
    sizes = op.outputs[0].shape
    if len(axes) != len(source) or not distinct_axes(axes, len(sizes)):
        return False
    return all(n in (1, None, sizes[axis]) for n, axis in zip(source, axes, strict=True))


def spread_shape(op: Op, source: tuple[int, ...]) -> tuple[int, ...]:
    """The operand's sizes where its axes lie in the result, 1 elsewhere."""
    axes, sizes = op.attributes(BroadcastAttrs).broadcast_dimensions, [1] * len(op.outputs[0].shape)
    for size, axis in zip(source, axes, strict=True):
        sizes[axis] = size
    return tuple(sizes)


def spread_order(op: Op) -> tuple[int, ...]:
    """The operand's axes in the order in which they lie in the result."""
    axes = op.attributes(BroadcastAttrs).broadcast_dimensions
    return tuple(sorted(range(len(axes)), key=lambda axis: axes[axis]))


def _evaluate_broadcast(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source = present(inputs[0])
    ordered = source.transpose(spread_order(op)).reshape(spread_shape(op, source.shape))
    return [np.broadcast_to(ordered, op.outputs[0].static_shape).copy()]


define(
    OpDef(
        kind="STABLEHLO_BROADCAST_IN_DIM",
        attrs=BroadcastAttrs,
        arity=(1, 1),
        dtypes=("* -> *",),
        infer=lambda op: [TensorType(operand(op, 0).dtype, op.outputs[0].shape)],
        evaluate=_evaluate_broadcast,
        rules=(
            _STATIC,
            when_ranked("axes", _spreads, "each axis must name one of the result, or be of size 1"),
        ),
    )
)


@dataclass(frozen=True)
class IotaAttrs:
    """The axis along which elements count."""

    iota_dimension: int = 0


def _evaluate_iota(op: Op, inputs: Arrays) -> list[np.ndarray]:
    sizes, axis = op.outputs[0].static_shape, op.attributes(IotaAttrs).iota_dimension
    spread = [-1 if place == axis else 1 for place in range(len(sizes))]
    counted = np.arange(sizes[axis]).astype(op.outputs[0].dtype.numpy).reshape(spread)
    return [np.broadcast_to(counted, sizes).copy()]


define(
    OpDef(
        kind="STABLEHLO_IOTA",
        attrs=IotaAttrs,
        arity=(0, 0),
        required=0,
        dtypes=tuple(f"-> {name}" for name in NUMBERS),
        infer=as_stated,
        evaluate=_evaluate_iota,
        rules=(
            _STATIC,
            Rule(
                "axis",
                lambda op: 0 <= op.attributes(IotaAttrs).iota_dimension < len(op.outputs[0].shape),
                "the axis must be one of the result",
            ),
        ),
    )
)
