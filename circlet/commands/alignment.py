"""Arrays of one network for another: layouts, quantisation and dtypes that differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.artifact.values import Value
from circlet.errors import InputError
from circlet.small_dtypes import dtype_named

_ORDERS = {3: ((0, 2, 1),), 4: ((0, 2, 3, 1), (0, 3, 1, 2)), 5: ((0, 2, 3, 4, 1), (0, 4, 1, 2, 3))}


def aligned(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The array in another shape of the same elements, channels first or last; None for others.

    Sizes of 1 may be missing or extra.
    """
    if array.shape == shape:
        return array
    for order in _ORDERS.get(array.ndim, ()):
        if tuple(array.shape[axis] for axis in order) == shape:
            return array.transpose(order)
    if [size for size in array.shape if size != 1] == [size for size in shape if size != 1]:
        return array.reshape(shape)
    return None


def real(
    array: np.ndarray, scale: Sequence[float], zero: Sequence[int], axis: int = 0
) -> np.ndarray:
    """What stored integers stand for, with one scale or one for each place of an axis.

    Other arrays are given as they are.
    """
    if not len(scale) or array.dtype.kind not in "iu":
        return array
    zeros = _along(zero if len(zero) else (0,), axis, array.ndim)
    return np.asarray((array.astype(np.float64) - zeros) * _along(scale, axis, array.ndim))


def _along(values: Sequence[float], axis: int, rank: int) -> np.ndarray:
    """Values for each place of an axis, or one for all of them, as they are broadcast."""
    sizes = [1] * rank
    if len(values) > 1:
        sizes[axis] = len(values)
    return np.asarray(values, np.float64).reshape(sizes)


def input_for(array: np.ndarray, given: Value, wanted: Value) -> np.ndarray:
    """What an input of one network is for the corresponding one of another.

    Raises:
        InputError: Their sizes are those of other things.
    """
    shape = tuple(size if size >= 0 else 1 for size in wanted.shape)
    fitting = array if wanted.takes(array.shape) else aligned(array, shape)
    if fitting is None:
        raise InputError(
            "the networks take other inputs, so their values cannot be compared",
            where=f"{given.name!r} and {wanted.name!r}",
            why=f"{list(array.shape)} does not fit {list(wanted.shape)}",
            fix="resize one of them with `circlet resize`",
        )
    dtype = dtype_named(wanted.dtype)
    is_alike = (given.scale, given.zero_point) == (wanted.scale, wanted.zero_point)
    is_silent = dtype.kind in "iu" and not (given.scale and wanted.scale)  # as .onnx files are
    if fitting.dtype == dtype and (is_alike or is_silent):
        return np.require(fitting, requirements="C")
    numbers = real(fitting, given.scale, given.zero_point)
    if wanted.scale and dtype.kind in "iu":
        limits = np.iinfo(wanted.dtype)
        stored = np.round(numbers / wanted.scale[0]) + (wanted.zero_point or (0,))[0]
        numbers = np.clip(stored, limits.min, limits.max)
    return np.require(numbers.astype(dtype), requirements="C")
