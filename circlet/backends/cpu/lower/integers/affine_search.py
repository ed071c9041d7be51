"""Affine requantisation in single precision, proved for each channel.

Outputs are a monotone step function of sums (`roundings.py`). A multiply-add of floats and a
rounding are one too, so equal thresholds mean equal outputs everywhere. Where ties are rounded away
from zero, outputs on both sides of it need an offset each: a piecewise affine map. Where they are
rounded to even, one offset does. For every channel a slope and offsets are sought, and what kernels
compute is computed here, on both sides of each threshold, to prove that they fit.

    output                  ______
                      _____|         a slope and an offset fit where rounding them to nearest puts
                _____|               every riser between the same two neighbouring sums
          _____|
                 sums ->
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.lower.integers.roundings import (
    Bool,
    Float32,
    Float64,
    Int64,
    Rounding,
    Rows,
    Thresholds,
)

_FEW = 64
_TIGHT = 16
_TIGHTEST = 2
_FIRST, _REST = slice(_TIGHTEST), slice(_TIGHTEST, None)


class _Search(NamedTuple):
    """How far from the nearest slope and from no start maps are sought, and how many are tried.

    Adding a start to all sums moves where floats round: each is another chance for a slope of 24
    bits to follow one of 31.
    """

    moves: tuple[int, ...]
    farthest: int
    tries: int


_QUICK = _Search((0, 1, -1), 64, 4)
_THOROUGH = _Search((0, 1, -1, 2, -2), 2048, 64)


class FloatSums(NamedTuple):
    """How kernels make floats of sums s: step * (start + s) to nearest, + origin.

    Attributes:
        least_start: The smallest start that is sought, and `farthest` times two follow.
        most_sum: How far from zero sums may be.
        most_shift: The most right shift for which doubles hold what kernels compute.
    """

    step: int
    origin: float
    least_start: int
    most_sum: int
    most_shift: int

    def hold(self, least: Int64, most: Int64) -> Bool:
        """Whether all sums of a channel are floats."""
        return (least >= -self.most_sum) & (most <= self.most_sum)

    def starts(self, search: _Search) -> Int64:
        """The starts that a search looks at."""
        least = max(self.least_start, -search.farthest)
        return np.arange(least, least + 2 * search.farthest)

    def of(self, sums: Int64) -> Float64:
        """Sums with their starts as kernels see them."""
        return (sums * float(self.step)).astype(np.float32).astype(np.float64) + self.origin


_ROOM = 2 * _THOROUGH.farthest
BITS = FloatSums(1, 1.5 * 2**23, -_THOROUGH.farthest, (1 << 22) - _ROOM, 22)
"""Integers above 2**23 are the bits of floats."""


def multiples(step: int) -> FloatSums:
    """Multiples of a step, of 32 bits, are converted; below zero they are below that of 1."""
    return FloatSums(step, 0.0, 1, (1 << 31) // step - _ROOM, 16)


class Affine(NamedTuple):
    """Maps of sums s to outputs: slope * floats.of(start + s) + offset, rounded to nearest.

    Attributes:
        start: For each channel, or for each and some trials of it: [channels, trials].
        offsets: One, or one for sums below zero and one for others, on a last axis of their own.
    """

    start: Int64
    slope: Float32
    offsets: Float32
    floats: FloatSums

    def at(self, channels: Rows | Bool) -> Affine:
        """The maps of some channels."""
        start, slope, offsets, floats = self
        return Affine(start[channels], slope[channels], offsets[channels], floats)

    def put(self, channels: Rows | Bool, maps: Affine) -> None:
        """Replace the maps of some channels."""
        self.start[channels] = maps.start
        self.slope[channels] = maps.slope
        self.offsets[channels] = maps.offsets

    def outputs(self, sums: Int64) -> Float32:
        """What kernels make of sums, on a last axis of their own, before they saturate.

        The doubles are exact: floats of sums and slopes have 24 bits each, and no offset is finer.
        """
        offset = self.offsets
        if offset.shape[-1] == 2:
            offset = np.where(sums < 0, offset[..., :1], offset[..., 1:])
        at = self.floats.of(sums + self.start[..., None])
        return np.rint((at * self.slope[..., None].astype(np.float64) + offset).astype(np.float32))

    def matches(self, thresholds: Thresholds) -> Bool:
        """Which maps have all thresholds in their places."""
        low = (self.outputs(thresholds.below) < thresholds.levels) | ~thresholds.falls
        high = (self.outputs(thresholds.above) >= thresholds.levels) | ~thresholds.rises
        return np.asarray((low & high).all(axis=-1))


def affine_of(
    scale: Rounding, bounds: tuple[int, int], zero: int, floats: FloatSums = BITS
) -> tuple[Affine, Bool]:
    """Maps of channels, and for which there are any."""
    sides = scale.sides(bounds)
    tame = floats.hold(scale.least, scale.most) & scale.is_tame(floats.most_shift)
    few, place = scale.at(tame).distinct()
    maps, found = _search(few.thresholds(bounds, zero), few.slopes(), sides, floats)
    every = _constant_maps(np.zeros(tame.size, np.float32), sides, floats)
    every.put(tame, maps.at(place))
    fits = tame.copy()
    fits[tame] = found[place]
    return every, fits


def _constant_maps(slope: Float32, sides: int, floats: FloatSums) -> Affine:
    offsets = np.zeros((slope.size, sides), np.float32)
    return Affine(np.full(slope.size, max(floats.least_start, 0)), slope, offsets, floats)


def _search(
    thresholds: Thresholds, slopes: Float64, sides: int, floats: FloatSums
) -> tuple[Affine, Bool]:
    """Most channels fit at once; the others are worth many more trials only where they are few."""
    nearest = (slopes / floats.step).astype(np.float32)
    count = nearest.size
    maps = _constant_maps(nearest.copy(), sides, floats)
    found = np.zeros(count, bool)
    if not count or not thresholds.levels.size:
        return maps, found
    tight = _tightest(thresholds, slopes[:, None], sides)
    for search in (_QUICK, _THOROUGH):
        for move in search.moves:
            left = np.flatnonzero(~found)
            if not left.size or (search is _THOROUGH and left.size > max(_FEW, count // 4)):
                break
            slope = nearest[left] + np.float32(move) * np.spacing(nearest[left])
            fits = _try(maps, left, tight.at(left), slope.astype(np.float32), search)
            found[left[fits]] = maps.at(left[fits]).matches(thresholds.at(left[fits]))
    return maps, found


def _tightest(thresholds: Thresholds, slope: Float64, sides: int) -> Thresholds:
    """The thresholds of each side that leave maps of a slope the least room, tightest first."""
    middle, _ = _corridors(thresholds, slope, sides)
    rise = thresholds.levels - 0.5 - np.where(thresholds.below < 0, middle[:, :1], middle[:, -1:])
    under = np.where(thresholds.falls, rise - slope * thresholds.below, np.inf)
    over = np.where(thresholds.rises, slope * thresholds.above - rise, np.inf)
    room = np.minimum(under, over)
    negative = thresholds.below < 0
    parts = (
        [room]
        if sides == 1
        else [np.where(negative, room, np.inf), np.where(negative, np.inf, room)]
    )
    count = min(_TIGHT, room.shape[1])
    picks = [np.argsort(part.astype(np.float32), axis=1)[:, :count] for part in parts]
    ordered = [pick[:, cut] for cut in (_FIRST, _REST) for pick in picks]
    tight = np.concatenate(ordered, axis=1)
    levels = np.broadcast_to(thresholds.levels, thresholds.below.shape)
    rows = Thresholds(
        levels,
        thresholds.below,
        thresholds.above,
        thresholds.falls,
        thresholds.rises,
        thresholds.zero,
    )
    return rows.map(lambda row: np.take_along_axis(row, tight, 1))


def _try(maps: Affine, rows: Rows, thresholds: Thresholds, slope: Float32, search: _Search) -> Bool:
    """Set the maps of those rows that have some of this slope; which do."""
    floats, wide = maps.floats, slope.astype(np.float64)
    middle, room = _corridors(thresholds, wide[:, None] * floats.step, maps.offsets.shape[1])
    starts = floats.starts(search)
    rise = wide[:, None, None] * floats.of(starts)
    offsets = (middle[:, :, None] - rise).astype(np.float32)
    missed = (np.abs(offsets + rise - middle[:, :, None]) / room[:, :, None]).max(axis=1)
    parts = missed.reshape(rows.size, search.tries, -1)
    best = parts.argmin(axis=2) + np.arange(search.tries) * parts.shape[2]
    chosen = np.take_along_axis(offsets, best[:, None], 2).swapaxes(1, 2)
    trials = Affine(starts[best], slope[:, None], chosen, floats)
    matching = _matching(trials, thresholds, _TIGHTEST * maps.offsets.shape[1])
    fits, first = np.asarray(matching.any(axis=1)), matching.argmax(axis=1)
    every = np.arange(rows.size)
    found = Affine(trials.start[every, first], slope, chosen[every, first], floats)
    maps.put(rows[fits], found.at(fits))
    return fits


def _matching(trials: Affine, thresholds: Thresholds, few: int) -> Bool:
    """Which trials have all thresholds in their places; most fail at one of the first `few`."""
    matching = trials.matches(thresholds.map(lambda row: row[:, None, :few]))
    rows, tries = np.nonzero(matching)
    chosen = trials.start[rows, tries], trials.slope[rows, 0], trials.offsets[rows, tries]
    left = Affine(*chosen, trials.floats)
    matching[rows, tries] = left.matches(thresholds.at(rows))
    return matching


def _corridors(thresholds: Thresholds, slope: Float64, sides: int) -> tuple[Float64, Float64]:
    """The middle of the offsets that maps may have, and half the room there is, [channels, sides].

    A side without thresholds is one that saturates: zero sums are zero points there.
    """
    edge = thresholds.levels - 0.5
    most = np.where(thresholds.falls, edge - slope * thresholds.below, np.inf)
    least = np.where(thresholds.rises, edge - slope * thresholds.above, -np.inf)
    if sides == 2:
        under, over = thresholds.below < 0, thresholds.above < 0
        most = np.stack([np.where(under, most, np.inf), np.where(under, np.inf, most)], 1)
        least = np.stack([np.where(over, least, -np.inf), np.where(over, -np.inf, least)], 1)
    else:
        most, least = most[:, None], least[:, None]
    high, low = most.min(axis=2), least.max(axis=2)
    nominal = np.where(np.isfinite(high), high - slope, thresholds.zero)
    low = np.where(np.isfinite(low), low, nominal)
    high = np.where(np.isfinite(high), high, low + slope)
    return (low + high) / 2, np.maximum(high - low, 1e-9) / 2
