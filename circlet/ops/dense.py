"""The elements of constants in packed storage: sparse tensors, 4-bit integers, scales per block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from circlet.ir import BlockwiseQuant, Sparsity, Tensor

Int64 = npt.NDArray[np.int64]

_PART_ELEMENTS = 1 << 20
_PLACE_BYTES = 8


@dataclass(frozen=True)
class _Level:
    """One level of sparse storage: every index up to `size`, or the stored ones per parent."""

    size: int
    segments: Int64 | None
    indices: Int64


def _numbers(vector: object) -> Int64:
    values = vector.get("values", ()) if isinstance(vector, dict) else ()
    return np.asarray(tuple(values or ()), np.int64)


def _level(dim: dict[str, object]) -> _Level | None:
    if dim.get("format") == "DENSE":
        size = dim.get("dense_size")
        return _Level(size, None, _numbers(None)) if isinstance(size, int) and size > 0 else None
    segments = _numbers(dim.get("array_segments"))
    return _Level(0, segments, _numbers(dim.get("array_indices"))) if segments.size else None


def densified(tensor: Tensor) -> np.ndarray | None:
    """The elements of a sparse constant, zero where none is stored; None for broken storage."""
    sparsity = tensor.sparsity
    if sparsity is None or tensor.data is None or not tensor.dtype.has_numpy:
        return None
    steps = _steps(tensor.static_shape, sparsity)
    levels = [_level(dim) for dim in sparsity.dims]
    known = [level for level in levels if level is not None]
    places = None if steps is None or len(known) < len(levels) else _places(tensor, steps, known)
    stored = _stored(tensor)
    if places is None or len(places) > len(stored):
        return None
    result = np.zeros(tensor.elements, tensor.dtype.numpy)
    result[places] = stored[: len(places)]
    return result.reshape(tensor.static_shape)


def _stored(tensor: Tensor) -> np.ndarray:
    """The stored elements of a sparse constant, one after the other."""
    size_bytes = tensor.dtype.numpy.itemsize
    raw = np.asarray(tensor.data).reshape(-1).view(np.uint8)
    return np.frombuffer(raw[: raw.size // size_bytes * size_bytes].tobytes(), tensor.dtype.numpy)


def densifying_bytes(tensor: Tensor) -> int:
    """The most memory that `densified` has at once besides its result, in bytes."""
    sparsity = tensor.sparsity
    if sparsity is None or tensor.data is None or not tensor.dtype.has_numpy:
        return 0
    stored = _most_places(tensor, [level for dim in sparsity.dims if (level := _level(dim))])
    return tensor.data.nbytes + 4 * stored * _PLACE_BYTES


def _steps(shape: Sequence[int], sparsity: Sparsity) -> list[tuple[int, int]] | None:
    """Of each level: how many indices it has, and how far apart elements of two of them lie.

    Axes come first, then parts of axes that blocks divide; None where they do not fit the shape.
    """
    order, blocks, rank = sparsity.traversal_order, sparsity.block_map, len(shape)
    if sorted(order) != list(range(rank + len(blocks))) or len(sparsity.dims) != len(order):
        return None
    if len({*blocks}) != len(blocks) or any(not 0 <= axis < rank for axis in blocks):
        return None
    by_axis = dict(zip(order, (dim.get("dense_size") for dim in sparsity.dims), strict=True))
    steps = [(size, prod(shape[axis + 1 :])) for axis, size in enumerate(shape)]
    for number, axis in enumerate(blocks):
        block, (size, step) = by_axis[rank + number], steps[axis]
        if not isinstance(block, int) or block <= 0 or size % block:
            return None
        steps[axis] = size // block, step * block
        steps.append((block, step))
    return [steps[axis] for axis in order]


def _places(tensor: Tensor, steps: list[tuple[int, int]], levels: list[_Level]) -> Int64 | None:
    """Where every stored element lies among all; None where the storage is broken."""
    most = _most_places(tensor, levels)
    places = np.zeros(1, np.int64)
    for level, (size, step) in zip(levels, steps, strict=True):
        found = _children(places, level, size, step, most)
        if found is None:
            return None
        places = found
    return places


def _children(places: Int64, level: _Level, size: int, step: int, most: int) -> Int64 | None:
    """The places of one more level, at most so many; None where the storage is broken."""
    if level.segments is None:
        if level.size != size or len(places) * size > most:
            return None
        every: Int64 = (places[:, None] + np.arange(size, dtype=np.int64) * step).reshape(-1)
        return every
    counts, indices = np.diff(level.segments), level.indices
    if len(counts) != len(places) or level.segments[0] != 0 or (counts < 0).any():
        return None
    if level.segments[-1] != len(indices) or len(indices) > most:
        return None
    if ((indices < 0) | (indices >= size)).any():
        return None
    return np.repeat(places, counts) + indices * step


def _most_places(tensor: Tensor, levels: Sequence[_Level]) -> int:
    """How many places a level may have: each is stored in the end, or has a segment on the way."""
    assert tensor.data is not None
    stored = tensor.data.nbytes // tensor.dtype.numpy.itemsize
    segments = (level.segments.size for level in levels if level.segments is not None)
    return min(tensor.elements, max([stored, *segments]))


def unpack_int4(tensor: Tensor) -> npt.NDArray[np.int8] | None:
    """The elements of an INT4 constant, the first of each byte in its low half."""
    raw = _halves(tensor)
    return None if raw is None else _signed(raw, tensor.elements).reshape(tensor.static_shape)


def blockwise_real(tensor: Tensor) -> npt.NDArray[np.float32] | None:
    """Real values of [rows, depth] INT4 elements, one scale per block of a row; None if unfit."""
    raw, scales = _halves(tensor), block_scales(tensor)
    if raw is None or scales is None:
        return None
    real = np.empty((scales.size, tensor.elements // max(scales.size, 1)), np.float32)
    step = 2 * max(1, _PART_ELEMENTS // max(real.shape[1], 1) // 2)  # parts start on whole bytes
    for first in range(0, len(real), step):
        part = real[first : first + step]
        start = first * real.shape[1] // 2
        part[...] = _signed(raw[start:], part.size).reshape(part.shape)
        part *= scales[first : first + step, None]
    return real.reshape(tensor.static_shape)


def _halves(tensor: Tensor) -> npt.NDArray[np.uint8] | None:
    """The bytes of a constant of two elements each; None where there are too few."""
    if tensor.data is None or tensor.data.size * 2 < tensor.elements:
        return None
    return np.asarray(tensor.data).reshape(-1).view(np.uint8)


def _signed(raw: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.int8]:
    """So many numbers of 4 bits, from the start of some bytes."""
    used = raw[: (count + 1) // 2]
    halves = np.empty((used.size, 2), np.uint8)
    np.bitwise_and(used, 15, out=halves[:, 0])
    np.right_shift(used, 4, out=halves[:, 1])
    halves ^= 8
    halves -= 8
    return halves.reshape(-1)[:count].view(np.int8)


def block_scales(tensor: Tensor) -> npt.NDArray[np.float32] | None:
    """The scales of all blocks, row by row; None where they do not fit the elements."""
    details = tensor.quant.details if tensor.quant is not None else None
    if not isinstance(details, BlockwiseQuant) or details.zero_points is not None:
        return None
    if details.block_size <= 0:
        return None
    scales, shape = details.scales.data, tensor.static_shape
    rows, depth = prod(shape[:-1]), shape[-1] if shape else 0
    blocks = depth // details.block_size
    if scales is None or scales.dtype.kind != "f" or scales.size != rows * blocks:
        return None
    if depth != blocks * details.block_size:
        return None
    return scales.astype(np.float32).reshape(-1)
