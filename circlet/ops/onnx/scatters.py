"""Kinds that join updates into a copy of the data, where indices point."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.ops.onnx.record import OnnxAttrs, axis_of, kinds, onnx_kind, same

Array = np.ndarray
_UPDATES = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _joined(data: Array, at: list[Array], updates: Array, how: str) -> Array:
    """Updates joined one after the other, at a place along each of the first axes.

    Places below zero count from the end; those that lie outside change nothing.
    """
    made, inside = data.copy(), np.ones(updates.shape[: at[0].ndim], bool)
    places = []
    for place, size in zip(at, data.shape, strict=False):
        counted = np.where(place < 0, place + size, place)
        inside = inside & (counted >= 0) & (counted < size)
        places.append(counted)
    kept = tuple(np.broadcast_to(place, inside.shape)[inside] for place in places)
    if how == "none":
        made[kept] = updates[inside]
    else:
        _UPDATES[how].at(made, kept, updates[inside])
    return made


def _scatter_elements(attrs: OnnxAttrs, data: Array, indices: Array, updates: Array) -> Array:
    at = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    at[axis_of(attrs.get("axis", 0), data.ndim)] = indices
    return _joined(data, at, updates, attrs.get("reduction", "none"))


def _scatter_nd(attrs: OnnxAttrs, data: Array, indices: Array, updates: Array) -> Array:
    at = list(np.moveaxis(indices, -1, 0))
    return _joined(data, at, updates, attrs.get("reduction", "none"))


kinds(
    {"ScatterElements": _scatter_elements, "Scatter": _scatter_elements, "ScatterND": _scatter_nd},
    inputs=(3, 3),
    infer=same,
    continues=((0, 0),),
)


def _tensor_scatter(attrs: OnnxAttrs, past: Array, update: Array, at: Any = None) -> Array:
    """Rows put into a cache, each batch from a place of its own on."""
    axis = axis_of(attrs.get("axis", -2), past.ndim)
    made, size = past.copy(), past.shape[axis]
    starts = np.zeros(past.shape[0], np.int64) if at is None else at
    for batch in range(past.shape[0]):
        places = int(starts[batch]) + np.arange(update.shape[axis])
        if attrs.get("mode", "linear") == "circular":
            places = places % size
        row = np.moveaxis(made[batch], axis - 1, 0)
        row[places] = np.moveaxis(update[batch], axis - 1, 0)
    return made


onnx_kind("TensorScatter", _tensor_scatter, inputs=(2, 3), infer=same)
