"""What weights exceed the bounds of `pairs_q8.py` by, as a sparse matrix (`conv_q8_sparse.h`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.integers.pairs_q8 import (
    MOST,
    MOST_WEIGHT,
    Int16,
    Int32,
    Windows,
    added,
    within_bounds,
)
from circlet.backends.cpu.lower.integers.q8 import Int8

_PAIRS = 2  # of taps of an entry
_FIELDS = 1 + 2 * _PAIRS
_ALIGNED = 4  # int32 that where blocks begin takes a multiple of


class SparseExcess(NamedTuple):
    """Packed weights within their bounds, and what they exceed these by.

    Attributes:
        kept: As `bounded` has them.
        table: Where the entries of each block begin, then all of them.
        entries: How many there are.
    """

    kept: Int8
    table: Int32
    entries: int


def chunk_pixels(lanes: int) -> int:
    """Pixels that the entries of a task are multiplied with at once."""
    return 2 * lanes


def scratch_taps(windows: Windows) -> int:
    """int32 of the taps of a chunk: two of int16 each."""
    return windows.rows * windows.columns * windows.groups * 2 * chunk_pixels(windows.lanes)


def sparse_excess(packed: Int16, windows: Windows) -> SparseExcess:
    """What `conv_q8_sparse.h` reads of [blocks, groups of all runs, channels of a block, 4]."""
    kept, rest = within_bounds(packed, windows, _kept)
    block, run, group, vector, lane, half = np.nonzero(rest[..., 0] | rest[..., 1])
    pair = (run * windows.groups + group) * 2 + half
    channel = vector * windows.lanes + lane
    weights = np.ascontiguousarray(rest[block, run, group, vector, lane, half], "<i2").view("<i4")
    order = np.lexsort((pair, channel, block))
    block, channel, pair, weights = (x[order] for x in (block, channel, pair, weights[:, 0]))
    nth, place = np.divmod(_ranks(block, channel), _PAIRS)
    # The first entries of all channels, then the second ones: neighbours wait for no sum in common.
    order = np.lexsort((place, channel, nth, block))
    first = place[order] == 0
    entry, place = np.cumsum(first) - 1, place[order]
    apart = chunk_pixels(windows.lanes) * np.dtype(np.int32).itemsize
    entries = np.zeros((np.count_nonzero(first), _FIELDS), np.int32)
    entries[:, 0] = channel[order][first] * apart
    entries[entry, 1 + place] = pair[order] * apart
    entries[entry, 1 + _PAIRS + place] = weights[order]
    starts = np.zeros(-(-(len(packed) + 1) // _ALIGNED) * _ALIGNED, np.int32)
    counts = np.bincount(block[order][first], minlength=len(packed))
    starts[1 : len(packed) + 1] = np.cumsum(counts)
    return SparseExcess(kept, np.concatenate([starts, entries.reshape(-1)]), len(entries))


def _ranks(block: npt.NDArray[np.intp], channel: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The place of each among those of its channel, which lie side by side."""
    index = np.arange(block.size)
    begins = np.ones(block.size, np.bool_)
    begins[1:] = (np.diff(block) != 0) | (np.diff(channel) != 0)
    return index - np.maximum.accumulate(np.where(begins, index, 0))


def _kept(weights: Int16) -> Int16:
    """What [n, lanes, pairs, groups, taps] keep: the largest taps give up what is too much."""
    together = np.clip(weights, -MOST, MOST_WEIGHT).reshape(-1, weights.shape[-2] * 2)
    for sign in (1, -1):
        sizes = np.maximum(sign * together, 0)
        much = added([*sizes.T]) - MOST
        over = np.flatnonzero(much > 0)
        together[over] -= sign * _given(sizes[over], much[over, None])
    return together.reshape(weights.shape)


def _given(sizes: Int16, much: Int16) -> Int16:
    """What [n, taps] give up so that each row has so much less, the largest first."""
    order = np.argsort(-sizes, axis=-1, kind="stable")
    largest = np.take_along_axis(sizes, order, -1)
    before = np.cumsum(largest, axis=-1, dtype=np.int16) - largest
    given = np.zeros_like(sizes)
    np.put_along_axis(given, order, np.clip(much - before, 0, largest), -1)
    return given
