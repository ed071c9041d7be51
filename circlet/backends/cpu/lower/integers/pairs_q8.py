"""Weights for products of bytes that are added in 16 bits, of x86 CPUs without dot products.

    pairs of taps     x0*w0 + x1*w1          one instruction (VPMADDUBSW), 16 bits
    two such sums     x0*w0 + x1*w1 + x4*w4 + x5*w5           another; then 32 bits

Activations are bytes from 0 to 255, so a sum fits where neither its weights above zero nor those
below add up to more than 128. Most do. What others exceed that by is taken off them and stands
apart (the *excess*): products are exact for any weights, and only those that exceed their bounds
cost more. Zero points are taken off weights ahead of it, for which 9 bits are no obstacle.

The excess is weights of their own for four taps of one register of channels (`PAIRS`), or a sparse
matrix (`SPARSE`, `sparse_q8.py`). Where it is large products of int16 take less time (`WIDE`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.integers.q8 import Int8

Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]

PAIRS, WIDE = "CONV_Q8_PAIRS", "CONV_Q8_WIDE"
SPARSE = f"{PAIRS} | CONV_Q8_SPARSE"
GROUP = 4
MOST = 128  # 255 times that fits int16
MOST_WEIGHT = 127
_PLACE = 4  # int32 that say where an excess is: row and column of the run, byte, unused


class Windows(NamedTuple):
    """How packed weights fall into runs of taps and registers of channels.

    Attributes:
        rows, columns: Runs of a window.
        length: Bytes of a run.
        lanes: Channels of a register.
    """

    rows: int
    columns: int
    length: int
    lanes: int

    @property
    def groups(self) -> int:
        """Groups of four bytes of a run."""
        return -(-self.length // GROUP)

    @property
    def byte_of_group(self) -> Int32:
        """Where each group is read from: the last one ends with the run."""
        last = max(self.length - GROUP, 0)
        return np.minimum(np.arange(self.groups) * GROUP, last).astype(np.int32)


class _Excess(NamedTuple):
    """Weights of one register for four taps of windows; [n, lanes, 4]."""

    block: npt.NDArray[np.intp]
    run: npt.NDArray[np.intp]
    group: npt.NDArray[np.intp]
    vector: npt.NDArray[np.intp]
    weights: Int16


def bounded(packed: Int16, windows: Windows) -> tuple[Int8, Int8]:
    """Packed weights within their bounds, and the excess as `conv_q8_pairs.h` reads it.

    Args:
        packed: [blocks, groups of all runs, channels of a block, 4].
    """
    kept, rest = within_bounds(packed, windows, _kept_of_two)
    return kept, _table(rest, windows)


def within_bounds(
    packed: Int16, windows: Windows, keep: Callable[[Int16], Int16]
) -> tuple[Int8, Int16]:
    """Packed weights within their bounds, and the rest.

    Args:
        packed: [blocks, groups of all runs, channels of a block, 4].
        keep: What is kept of [n, lanes, pairs, groups, taps] that are added in 16 bits, where one
            of the lanes exceeds its bounds; there are one or two groups.

    Returns:
        The rest as [blocks, runs, groups, vectors, lanes, pairs, taps].
    """
    blocks, _, columns, _ = packed.shape
    vectors = columns // windows.lanes
    runs = windows.rows * windows.columns
    shape = blocks, runs, windows.groups, vectors, windows.lanes, 2, 2
    steps, twos = packed.reshape(shape), windows.length // GROUP // 2
    kept = steps.copy()
    paired = steps[:, :, : 2 * twos].reshape(blocks, runs, twos, 2, *shape[3:])
    pairs = np.moveaxis(paired, 3, -2)  # [..., lanes, pairs of taps, two groups, two taps]
    held = np.moveaxis(kept[:, :, : 2 * twos].reshape(paired.shape), 3, -2)
    over = _exceeds(pairs)
    held[over] = keep(pairs[over])
    kept[:, :, : 2 * twos] = np.moveaxis(held, -2, 3).reshape(kept[:, :, : 2 * twos].shape)
    alone = kept[:, :, 2 * twos :, ..., None, :]
    over = _exceeds(alone)
    alone[over] = keep(alone[over])
    return kept.astype(np.int8).reshape(packed.shape), steps - kept


def excess_share(kept: Int8, excess: Int8, lanes: int) -> float:
    """Steps of the excess for each step of the products, of four taps of a register."""
    registers = kept.size // (lanes * GROUP)
    return excess.size / (registers * (lanes * GROUP + 4 * _PLACE))


def added(parts: Sequence[Int16]) -> Int16:
    """The sum of few arrays, in a fraction of the time of a sum over a short axis."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _exceeds(weights: Int16) -> npt.NDArray[np.bool_]:
    """Which registers of [..., lanes, pairs, groups, taps] have a sum beyond the bounds."""
    taps = [weights[..., group, tap] for group in range(weights.shape[-2]) for tap in (0, 1)]
    above = added([np.maximum(tap, 0) for tap in taps])
    below = added(taps) - above
    most = np.maximum.reduce(taps)
    beyond = (above > MOST) | (below < -MOST) | (most > MOST_WEIGHT)
    exceeding: npt.NDArray[np.bool_] = beyond.any(axis=(-2, -1))
    return exceeding


def _kept(weights: Int16) -> Int16:
    """The part of [n, lanes, pairs, groups, taps] within bounds: of the first taps, what fits."""
    kept = np.zeros_like(weights)
    above = np.full(weights.shape[:-2], MOST, np.int16)
    below = above.copy()
    for group in range(weights.shape[-2]):
        for tap in range(weights.shape[-1]):
            weight = weights[..., group, tap]
            most = np.minimum(above, MOST_WEIGHT)
            part = np.clip(weight, -below, most)
            above -= np.maximum(part, 0)
            below += np.minimum(part, 0)
            kept[..., group, tap] = part
    return kept


def _kept_of_two(weights: Int16) -> Int16:
    """The same, of two groups so that the fewer of them have an excess."""
    first, second = _kept(weights), _kept(weights[..., ::-1, :])[..., ::-1, :]

    def exceeding(kept: Int16) -> npt.NDArray[np.intp]:
        groups = (weights != kept).any(axis=(1, 2, 4))
        count: npt.NDArray[np.intp] = groups.sum(axis=1)
        return count

    better = exceeding(first) <= exceeding(second)
    return np.where(better[:, None, None, None, None], first, second)


def _table(rest: Int16, windows: Windows) -> Int8:
    """Where the excess of each register begins, then all of it, in bytes."""
    found = _steps(rest)
    order = np.lexsort((found.group, found.run, found.vector, found.block))
    vectors = rest.shape[3]
    register = found.block * vectors + found.vector
    counts = np.bincount(register, minlength=rest.shape[0] * vectors)
    starts = np.zeros(-(-(counts.size + 1) // _PLACE) * _PLACE, np.int32)
    starts[1 : counts.size + 1] = np.cumsum(counts)
    places = np.zeros((order.size, _PLACE), np.int32)
    places[:, 0], places[:, 1] = np.divmod(found.run[order], windows.columns)
    places[:, 2] = windows.byte_of_group[found.group[order]]
    weights = found.weights[order].astype(np.int8).reshape(order.size, windows.lanes * GROUP)
    rows: list[npt.NDArray[Any]] = [places.view(np.int8), weights]
    return np.concatenate([starts.view(np.int8), np.hstack(rows).reshape(-1)])


def _steps(rest: Int16) -> _Excess:
    """An excess [blocks, runs, groups, vectors, lanes, pairs, taps] as steps within bounds."""
    block, run, group, vector = np.nonzero(rest.any(axis=(-3, -2, -1)))
    left = rest[block, run, group, vector]
    places, parts = [np.stack([block, run, group, vector])], []
    while True:
        part = _kept(left[..., None, :])[..., 0, :]
        parts.append(part)
        left = left - part
        more = left.any(axis=(1, 2, 3))
        if not more.any():
            break
        left = left[more]
        places.append(places[-1][:, more])
    block, run, group, vector = np.concatenate(places, axis=1)
    return _Excess(block, run, group, vector, np.concatenate(parts))
