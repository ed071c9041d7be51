"""Kinds of StableHLO that move elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from circlet.ir import DType, Tensor
from circlet.ir.builder import constant
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.quantize import CastAttrs
from circlet.ops.split import PackAttrs
from circlet.ops.stablehlo.dynamic import DynamicSliceAttrs
from circlet.ops.stablehlo.indexed import GatherAttrs
from circlet.ops.stablehlo.movement import (
    ConcatenateAttrs,
    IotaAttrs,
    TransposeAttrs,
    slice_rows,
    spread_order,
    spread_shape,
)
from circlet.passes.stablehlo.steps import Steps

_COUNTED = frozenset({DType.INT32, DType.INT64})


def _reshape(steps: Steps) -> None:
    steps.reshaped(steps.operand(0), steps.sizes)


def _transpose(steps: Steps) -> None:
    order = steps.op.attributes(TransposeAttrs).permutation
    steps.add("TRANSPOSE", [steps.operand(0), steps.ints(order)])


def _slice(steps: Steps) -> None:
    rows = zip(*slice_rows(steps.op), strict=True)
    steps.add("STRIDED_SLICE", [steps.operand(0), *map(steps.ints, rows)])


def _concatenate(steps: Steps) -> None:
    axis = steps.op.attributes(ConcatenateAttrs).dimension
    parts = [steps.operand(index) for index in range(len(steps.op.inputs))]
    steps.add("CONCATENATION", parts, ConcatenationAttrs(axis))


def _spread(steps: Steps, source: Tensor) -> None:
    steps.add("BROADCAST_TO", [source, steps.ints(steps.sizes)])


def _broadcast(steps: Steps) -> None:
    source = steps.operand(0)
    ordered = steps.transposed(source, spread_order(steps.op))
    _spread(steps, steps.reshaped(ordered, spread_shape(steps.op, source.static_shape)))


def _iota(steps: Steps) -> None:
    """Counted in a type that RANGE has, then spread."""
    axis, dtype = steps.op.attributes(IotaAttrs).iota_dimension, steps.op.outputs[0].dtype
    counted = dtype if dtype in _COUNTED else DType.INT32
    bounds = (0, steps.sizes[axis], 1)
    ends = [constant("bound", np.array(value, counted.numpy)) for value in bounds]
    numbers = steps.add("RANGE", ends, dtype=counted)
    if counted is not dtype:
        numbers = steps.add("CAST", [numbers], CastAttrs(counted.name, dtype.name), dtype)
    sizes = [size if place == axis else 1 for place, size in enumerate(steps.sizes)]
    _spread(steps, steps.reshaped(numbers, sizes))


def _packed(steps: Steps, first: int) -> Tensor:
    """The single starts from input `first` on as one list."""
    starts = [steps.operand(index) for index in range(first, len(steps.op.inputs))]
    return steps.add("PACK", starts, PackAttrs(len(starts), 0))


def _dynamic_slice(steps: Steps) -> None:
    """A gather of one window moves it inside as well."""
    sizes = steps.op.attributes(DynamicSliceAttrs).slice_sizes
    axes = tuple(range(len(sizes)))
    if axes:
        attrs = GatherAttrs(axes, (), axes, 0, sizes)
        steps.add("STABLEHLO_GATHER", [steps.operand(0), _packed(steps, 1)], attrs)


def _dynamic_update(steps: Steps) -> None:
    if steps.sizes:
        given = [steps.operand(0), steps.operand(1), _packed(steps, 2)]
        steps.add("DYNAMIC_UPDATE_SLICE", given)


MOVEMENT: Mapping[str, Callable[[Steps], None]] = {
    "STABLEHLO_BROADCAST_IN_DIM": _broadcast,
    "STABLEHLO_CONCATENATE": _concatenate,
    "STABLEHLO_DYNAMIC_SLICE": _dynamic_slice,
    "STABLEHLO_DYNAMIC_UPDATE_SLICE": _dynamic_update,
    "STABLEHLO_IOTA": _iota,
    "STABLEHLO_RESHAPE": _reshape,
    "STABLEHLO_SLICE": _slice,
    "STABLEHLO_TRANSPOSE": _transpose,
}
