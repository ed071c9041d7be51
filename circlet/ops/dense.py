"""The elements of constants in packed storage: sparse tensors, 4-bit integers, scales per block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from circlet.ir import BlockwiseQuant, Tensor

Int64 = npt.NDArray[np.int64]

_PART_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class _Level:
    """One level of sparse storage: every index up to `size`, or the stored ones per parent."""

    size: int
    segments: Int64 | None
    indices: Int64

    def children(self, parents: int) -> tuple[Int64, Int64] | None:
        """Of each child: its parent and its index; None where the storage is broken."""
        if self.segments is None:
            every = np.arange(parents * self.size, dtype=np.int64)
            return every // self.size, every % self.size
        counts = np.diff(self.segments)
        fits = len(counts) == parents and self.segments[0] == 0 and (counts >= 0).all()
        if not fits or self.segments[-1] != len(self.indices):
            return None
        return np.repeat(np.arange(parents), counts), self.indices


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
    sparsity, shape = tensor.sparsity, tensor.static_shape
    if sparsity is None or tensor.data is None or not tensor.dtype.has_numpy:
        return None
    order, blocks = sparsity.traversal_order, sparsity.block_map
    levels = [_level(dim) for dim in sparsity.dims]
    valid = sorted(order) == list(range(len(levels))) and len(order) == len(shape) + len(blocks)
    if not valid or any(not 0 <= axis < len(shape) for axis in blocks):
        return None
    places = _places(tensor, order, [level for level in levels if level is not None])
    if places is None or len(levels) != len(places):
        return None
    return _scatter(tensor, [places[axis] for axis in range(len(order))])


def _places(tensor: Tensor, order: Sequence[int], levels: list[_Level]) -> dict[int, Int64] | None:
    """The index of every stored element along each expanded axis."""
    found: dict[int, Int64] = {}
    count = 1
    most = _most_places(tensor, levels)
    for axis, level in zip(order, levels, strict=False):
        if level.segments is None and count * level.size > most:
            return None
        children = level.children(count)
        if children is None or len(children[0]) > most:
            return None
        parents, indices = children
        found = {known: values[parents] for known, values in found.items()} | {axis: indices}
        count = len(indices)
    return found


def _most_places(tensor: Tensor, levels: Sequence[_Level]) -> int:
    """How many places a level may have: each is stored in the end, or has a segment on the way."""
    assert tensor.data is not None
    stored = tensor.data.nbytes // tensor.dtype.numpy.itemsize
    segments = (level.segments.size for level in levels if level.segments is not None)
    return min(tensor.elements, max([stored, *segments]))


def _scatter(tensor: Tensor, places: list[Int64]) -> np.ndarray | None:
    sparsity, shape = tensor.sparsity, tensor.static_shape
    assert sparsity is not None and tensor.data is not None
    sizes = [dim.get("dense_size") for dim in sparsity.dims]
    by_axis = dict(zip(sparsity.traversal_order, sizes, strict=True))
    index = places[: len(shape)]
    for number, axis in enumerate(sparsity.block_map):
        block = by_axis[len(shape) + number]
        if not isinstance(block, int):
            return None
        index[axis] = index[axis] * block + places[len(shape) + number]
    stored = np.frombuffer(tensor.data.tobytes(), tensor.dtype.numpy)
    outside = any(((i < 0) | (i >= n)).any() for i, n in zip(index, shape, strict=True))
    if outside or (index and len(index[0]) > len(stored)):
        return None
    result = np.zeros(shape, tensor.dtype.numpy)
    result[tuple(index)] = stored[: len(index[0])]
    return result


def unpack_int4(tensor: Tensor) -> npt.NDArray[np.int8] | None:
    """The elements of an INT4 constant, the first of each byte in its low half."""
    raw = _halves(tensor)
    return None if raw is None else _signed(raw, tensor.elements).reshape(tensor.static_shape)


def blockwise_real(tensor: Tensor, tensors: Sequence[Tensor]) -> npt.NDArray[np.float32] | None:
    """Real values of [rows, depth] INT4 elements, one scale per block of a row; None if unfit."""
    raw, scales = _halves(tensor), _block_scales(tensor, tensors)
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


def _block_scales(tensor: Tensor, tensors: Sequence[Tensor]) -> npt.NDArray[np.float32] | None:
    """The scales of all blocks, row by row; None where they do not fit the elements."""
    details = tensor.quant.details if tensor.quant is not None else None
    if not isinstance(details, BlockwiseQuant) or details.zero_points_tensor >= 0:
        return None
    if not 0 <= details.scales_tensor < len(tensors) or details.block_size <= 0:
        return None
    scales, shape = tensors[details.scales_tensor].data, tensor.static_shape
    rows, depth = prod(shape[:-1]), shape[-1] if shape else 0
    blocks = depth // details.block_size
    if scales is None or scales.dtype.kind != "f" or scales.size != rows * blocks:
        return None
    if depth != blocks * details.block_size:
        return None
    return scales.astype(np.float32).reshape(-1)
