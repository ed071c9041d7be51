"""Constants in TFLite's sparse storage, made of dense arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Quantization, Sparsity, Tensor


@dataclass(frozen=True)
class Storage:
    """How a constant is stored: the order of its levels, which are lists of stored indices.

    Attributes:
        order: The axes in the order of levels; parts within blocks are axes behind the others.
        listed: The places in `order` of the levels that list their indices.
        blocks: Axes that are divided into blocks, and the sizes of these.
    """

    order: tuple[int, ...]
    listed: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...] = ()


def vector(values: Sequence[int]) -> dict[str, object]:
    """Indices in the narrowest table that holds them."""
    most = max(values, default=0)
    word = "Uint8Vector" if most < 256 else "Uint16Vector" if most < 1 << 16 else "Int32Vector"
    return {"table": word, "values": tuple(values)}


def sparse_constant(
    name: str, dense: np.ndarray, storage: Storage, quant: Quantization | None = None
) -> Tensor:
    """A constant of an array's elements, stored sparsely."""
    expanded = _expanded(dense, storage).transpose(storage.order)
    stored: list[np.ndarray] = []
    levels: list[tuple[list[int], list[int]]] = [([0], []) for _ in storage.order]
    _store(expanded, 0, storage, levels, stored)
    dims: list[dict[str, object]] = []
    for place, size in enumerate(expanded.shape):
        is_listed = place in storage.listed
        segments, indices = (vector(numbers) for numbers in levels[place])
        dims.append(
            {
                "format": "SPARSE_CSR" if is_listed else "DENSE",
                "dense_size": 0 if is_listed else size,
                "array_segments": segments if is_listed else None,
                "array_indices": indices if is_listed else None,
            }
        )
    data = np.array(stored, dense.dtype).view(np.uint8)
    sparsity = Sparsity([*storage.order], [axis for axis, _ in storage.blocks], dims)
    return Tensor(name, DType.of(dense), dense.shape, quant, data=data, sparsity=sparsity)


def _expanded(dense: np.ndarray, storage: Storage) -> np.ndarray:
    """The array with an axis more for each that is divided into blocks."""
    sizes: list[int] = []
    inner: dict[int, int] = {}
    known = dict(storage.blocks)
    for axis, size in enumerate(dense.shape):
        sizes.append(size // known.get(axis, 1))
        if axis in known:
            inner[axis] = len(sizes)
            sizes.append(known[axis])
    outer = [place for place in range(len(sizes)) if place not in inner.values()]
    parts = [inner[axis] for axis, _ in storage.blocks]
    return dense.reshape(sizes).transpose(outer + parts)


def _store(
    part: np.ndarray,
    place: int,
    storage: Storage,
    levels: list[tuple[list[int], list[int]]],
    stored: list[np.ndarray],
) -> None:
    """Add one part of the elements, the first axis of which is level `place`."""
    if place == len(storage.order):
        stored.append(part[()])
        return
    is_listed = place in storage.listed
    segments, indices = levels[place]
    for index, inner in enumerate(part):
        if is_listed and not inner.any():
            continue
        if is_listed:
            indices.append(index)
        _store(inner, place + 1, storage, levels, stored)
    if is_listed:
        segments.append(len(indices))
