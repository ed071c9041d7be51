"""STABLEHLO_GATHER and STABLEHLO_SCATTER: windows that lie where index vectors point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from circlet.ir import Op, Shape
from circlet.ops.guard import working
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, moves_bytes
from circlet.ops.operands import (
    operand,
    present,
    same_as_first,
    same_dtypes,
    sizes_agree,
    when_ranked,
)
from circlet.ops.stablehlo.regions import is_update, join_of
from circlet.ops.stablehlo.types import (
    INDICES,
    LITERT,
    define,
    distinct_axes,
)

_PLACE_BYTES = 40  # of each update: its place, twice, and whether it lies inside
_UPDATES = ("ADD", "MUL", "MAXIMUM", "MINIMUM")


@dataclass(frozen=True)
class GatherAttrs:
    """Which axes are windows, and which axes of the operand an index vector names."""

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0
    slice_sizes: tuple[int, ...] = ()
    indices_are_sorted: bool = False


@dataclass(frozen=True)
class ScatterAttrs:
    """Which axes are windows, and which axes of the operand an index vector names."""

    indices_are_sorted: bool = False
    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0
    unique_indices: bool = False


class Places(NamedTuple):
    """How a gather's result, or a scatter's updates, lie over the operand.

    Attributes:
        window_axes: Axes of the result that are windows, in order.
        operand_axes: The axis of the operand that each of them is.
        named_axes: The axis of the operand that each index of a vector names.
        vector_axis: The axis of the indices along which a vector lies; their rank where each
            vector is one index.
    """

    window_axes: tuple[int, ...]
    operand_axes: tuple[int, ...]
    named_axes: tuple[int, ...]
    vector_axis: int

    def batch_axes(self, rank: int) -> list[int]:
        """The other axes of a result of this rank: one position each has an index vector."""
        return [axis for axis in range(rank) if axis not in self.window_axes]


def _kept(rank: int, dropped: Sequence[int]) -> tuple[int, ...]:
    return tuple(axis for axis in range(rank) if axis not in dropped)


def places_of(op: Op) -> Places:
    """The places of a STABLEHLO_GATHER or STABLEHLO_SCATTER."""
    attrs, rank = op.attrs, len(operand(op, 0).shape)
    if isinstance(attrs, ScatterAttrs):
        kept = _kept(rank, attrs.inserted_window_dims)
        named = attrs.scatter_dims_to_operand_dims
        return Places(attrs.update_window_dims, kept, named, attrs.index_vector_dim)
    gather = op.attributes(GatherAttrs)
    kept = _kept(rank, gather.collapsed_slice_dims)
    return Places(gather.offset_dims, kept, gather.start_index_map, gather.index_vector_dim)


def _places_fit(op: Op, rank: int) -> bool:
    """Whether places name axes of the operand and of a result or update of this rank."""
    places, indices, source = places_of(op), operand(op, 1).shape, operand(op, 0).shape
    vector = places.vector_axis
    if not 0 <= vector <= len(indices) or not distinct_axes(places.named_axes, len(source)):
        return False
    length = 1 if vector == len(indices) else indices[vector]
    if length not in (None, len(places.named_axes)):
        return False
    windows = len(places.window_axes) == len(places.operand_axes)
    ordered = list(places.window_axes) == sorted(places.window_axes)
    return windows and ordered and distinct_axes(places.window_axes, rank)


def vector_sizes(op: Op) -> Shape:
    """The sizes of the indices without the axis of vectors."""
    indices, vector = operand(op, 1).shape, places_of(op).vector_axis
    return (*indices[:vector], *indices[vector + 1 :])


def _result_rank(op: Op) -> int:
    return len(vector_sizes(op)) + len(places_of(op).window_axes)


def _gather_fits(op: Op) -> bool:
    attrs, source = op.attributes(GatherAttrs), operand(op, 0).shape
    dropped, sizes = attrs.collapsed_slice_dims, attrs.slice_sizes
    if not distinct_axes(dropped, len(source)) or len(sizes) != len(source):
        return False
    if any(sizes[axis] != 1 for axis in dropped) or not _places_fit(op, _result_rank(op)):
        return False
    return all(
        n >= 0 and (whole is None or n <= whole) for n, whole in zip(sizes, source, strict=True)
    )


def _infer_gather(op: Op) -> list[TensorType]:
    places, batch = places_of(op), iter(vector_sizes(op))
    sizes = op.attributes(GatherAttrs).slice_sizes
    windows = dict(zip(places.window_axes, places.operand_axes, strict=True))
    shape = tuple(
        sizes[windows[axis]] if axis in windows else next(batch) for axis in range(_result_rank(op))
    )
    return [TensorType(operand(op, 0).dtype, shape)]


def _starts(places: Places, indices: np.ndarray, rank: int) -> list[np.ndarray]:
    """Where windows start along each axis of the operand, one start per index vector."""
    vectors = indices if places.vector_axis < indices.ndim else indices[..., None]
    listed = np.moveaxis(vectors, places.vector_axis, 0).astype(np.int64)
    none = np.zeros(listed.shape[1:], np.int64)
    named = dict(zip(places.named_axes, listed, strict=True))
    return [named.get(axis, none) for axis in range(rank)]


def _spread(places: Places, starts: list[np.ndarray], shape: Sequence[int]) -> list[np.ndarray]:
    """The place along each axis of the operand, over a result of this shape."""
    batch = [1] * len(shape)
    for axis in places.batch_axes(len(shape)):
        batch[axis] = shape[axis]
    offsets: dict[int, np.ndarray] = {}
    for axis, source in zip(places.window_axes, places.operand_axes, strict=True):
        sizes = [1] * len(shape)
        sizes[axis] = shape[axis]
        offsets[source] = np.arange(shape[axis]).reshape(sizes)
    return [start.reshape(batch) + offsets.get(axis, 0) for axis, start in enumerate(starts)]


def _evaluate_gather(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, indices, places = present(inputs[0]), present(inputs[1]), places_of(op)
    sizes = op.attributes(GatherAttrs).slice_sizes
    shape = [size or 0 for size in _infer_gather(op)[0].shape]
    for axis, size in zip(
        places.batch_axes(len(shape)), _vector_shape(places, indices), strict=True
    ):
        shape[axis] = size
    if 0 in shape:
        return [np.zeros(shape, source.dtype)]
    starts = _starts(places, indices, source.ndim)
    rows = zip(starts, source.shape, sizes, strict=True)
    inside = [np.maximum(np.minimum(start, whole - size), 0) for start, whole, size in rows]
    found = source[tuple(_spread(places, inside, shape))] if source.ndim else source
    return [np.broadcast_to(found, shape).copy()]


def _vector_shape(places: Places, indices: np.ndarray) -> tuple[int, ...]:
    vector = places.vector_axis
    return (*indices.shape[:vector], *indices.shape[vector + 1 :])


def _moved_cost(op: Op) -> Cost:
    """The indices are looked at once for each element."""
    moved = operand(op, 2 if len(op.inputs) > 2 else 1).elements + op.outputs[0].elements
    axes = len(operand(op, 0).shape)
    return Cost(bytes=moves_bytes(op).bytes, arithmetic=moved * max(1, axes))


_INDEX_FORMS = tuple(f"{data} {index}" for data in LITERT for index in INDICES)

define(
    OpDef(
        kind="STABLEHLO_GATHER",
        attrs=GatherAttrs,
        arity=(2, 2),
        required=2,
        dtypes=tuple(f"{form} -> {form.split()[0]}" for form in _INDEX_FORMS),
        infer=_infer_gather,
        evaluate=_evaluate_gather,
        rules=(
            when_ranked(
                "places", _gather_fits, "axes must exist, slices fit, and dropped axes be of size 1"
            ),
        ),
        cost=_moved_cost,
    )
)


def _scatter_fits(op: Op) -> bool:
    attrs = op.attributes(ScatterAttrs)
    source, updates = operand(op, 0).shape, operand(op, 2).shape
    if not distinct_axes(attrs.inserted_window_dims, len(source)):
        return False
    if not _places_fit(op, len(updates)) or _result_rank(op) != len(updates):
        return False
    places = places_of(op)
    batch = tuple(updates[axis] for axis in places.batch_axes(len(updates)))
    return sizes_agree(batch, vector_sizes(op))


def update_join(op: Op) -> str | None:
    """How a scatter joins an element with an update; "UPDATE" where the update replaces it."""
    join = "UPDATE" if is_update(op) else join_of(op)
    return join if join in ("UPDATE", *_UPDATES) else None


def _evaluate_scatter(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, indices, updates = map(present, inputs)
    result, places = source.copy(), places_of(op)
    if not updates.size or not source.size:
        return [result]
    with working(_PLACE_BYTES * updates.size, op, "the places of its updates"):
        at = _spread(places, _starts(places, indices, source.ndim), updates.shape)
        inside = np.ones(updates.shape, bool)
        flat = np.zeros(updates.shape, np.int64)
        for place, size in zip(at, source.shape, strict=True):
            inside &= (place >= 0) & (place < size)
            flat = flat * size + place
        _join_into(result.reshape(-1), flat[inside], updates[inside], update_join(op) or "")
    return [result]


def _join_into(to: np.ndarray, at: np.ndarray, values: np.ndarray, join: str) -> None:
    """Join values in order; of NaN and a number, what was there stays."""
    if join == "UPDATE":
        to[at] = values
    elif join == "ADD":
        np.add.at(to, at, values)
    elif join == "MUL":
        np.multiply.at(to, at, values)
    else:
        known = values == values
        ufunc = np.maximum if join == "MAXIMUM" else np.minimum
        ufunc.at(to, at[known], values[known])


define(
    OpDef(
        kind="STABLEHLO_SCATTER",
        attrs=ScatterAttrs,
        arity=(3, 3),
        required=3,
        dtypes=tuple(f"{form} {form.split()[0]} -> {form.split()[0]}" for form in _INDEX_FORMS),
        infer=same_as_first,
        evaluate=_evaluate_scatter,
        rules=(
            same_dtypes(0, 2),
            Rule(
                "body",
                lambda op: update_join(op) is not None,
                "the body must give the update, or one sum, product, maximum or minimum",
            ),
            when_ranked("places", _scatter_fits, "axes must exist, and updates fit the indices"),
        ),
        cost=_moved_cost,
        element_regions=True,
    )
)
