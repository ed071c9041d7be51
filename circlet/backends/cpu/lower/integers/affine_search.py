"""Affine requantisation in single precision, proved for each channel.

Over the sums that a channel can reach, its outputs are a monotone step function of at most 255
thresholds. A multiply-add of floats and a rounding are one too, so equal thresholds mean equal
outputs everywhere. TFLite's reference rounds ties away from zero, which moves thresholds on one
side of it, so outputs on both sides need an offset each: a piecewise affine map. ONNX Runtime
rounds them to even: one offset does. For every channel a slope and offsets are sought, and what
kernels compute is computed here, on both sides of each threshold, to prove that they fit.

    output                  ______
                      _____|         a slope and an offset fit where rounding them to nearest puts
                _____|               every riser between the same two neighbouring sums
          _____|
                 sums ->
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.ops.requantize import multiply_by_quantized_multiplier

Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

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


class FixedPoint(NamedTuple):
    """How sums of channels become outputs, before bounds: mantissas, right shifts, sums' reach."""

    mantissa: Int64
    right: Int64
    least: Int64
    most: Int64

    def is_tame(self, floats: FloatSums) -> Bool:
        """For which channels a map is worth a search."""
        shifts = (self.right >= 0) & (self.right <= floats.most_shift)
        return floats.hold(self.least, self.most) & (self.mantissa > 0) & shifts

    def at(self, channels: Rows | Bool) -> FixedPoint:
        """The scales of some channels."""
        return FixedPoint(*(values[channels] for values in self))

    def distinct(self) -> tuple[FixedPoint, Rows]:
        """One scale for all channels of the same scale, over all their sums; and each's place."""
        scales = np.stack([self.mantissa, self.right])
        unique, inverse = np.unique(scales, axis=1, return_inverse=True)
        place = inverse.reshape(-1)
        return FixedPoint(unique[0], unique[1], *_reach(self, place)), place

    def slopes(self) -> Float64:
        """What a sum is worth in steps of the output."""
        return np.ldexp(self.mantissa.astype(np.float64), (-31 - self.right).astype(np.int32))

    def is_uniform(self) -> bool:
        """Whether all channels have one scale."""
        return bool(
            (self.mantissa == self.mantissa[0]).all() and (self.right == self.right[0]).all()
        )

    def outputs(self, sums: Int64) -> Int64:
        """What sums [..., channels] become before zero points and bounds."""
        return multiply_by_quantized_multiplier(sums, self.mantissa, -self.right)

    def sides(self, bounds: tuple[int, int]) -> int:
        """Offsets of a map: halves move away from zero, which outputs on both sides of it show."""
        return 1 if bounds[0] >= 0 else 2

    def thresholds(self, bounds: tuple[int, int], zero: int) -> Thresholds:
        """The thresholds of doubly rounded products between bounds, which exclude the zero point.

        Both roundings are solved for the sum: the least product of mantissas that still rounds up
        to a level, then the least sum that reaches it.
        """
        mantissa, right = self.mantissa[:, None], self.right[:, None]
        levels = np.arange(bounds[0] + 1, bounds[1] + 1)[None]
        half = np.int64(1) << np.maximum(right - 1, 0)
        once = (levels << right) - np.where(right > 0, half - (levels <= 0), 0)
        above = -(((np.int64(1) << 30) - (once << 31)) // mantissa)
        return Thresholds.of(levels, above, self, zero)


class SingleFactor(NamedTuple):
    """The same where a product of floats is rounded once, halves to even, as ONNX Runtime does."""

    factor: Float32
    least: Int64
    most: Int64

    def is_tame(self, floats: FloatSums) -> Bool:
        """For which channels a map is worth a search."""
        factors = (self.factor < 1) & (self.factor >= 2.0 ** -(floats.most_shift + 1))
        return floats.hold(self.least, self.most) & factors

    def at(self, channels: Rows | Bool) -> SingleFactor:
        """The factors of some channels."""
        return SingleFactor(self.factor[channels], self.least[channels], self.most[channels])

    def distinct(self) -> tuple[SingleFactor, Rows]:
        """One factor for all channels of the same, over all their sums; and each's place."""
        unique, place = np.unique(self.factor, return_inverse=True)
        return SingleFactor(unique, *_reach(self, place)), place

    def slopes(self) -> Float64:
        """What a sum is worth in steps of the output."""
        return self.factor.astype(np.float64)

    def sides(self, bounds: tuple[int, int]) -> int:
        """Offsets of a map: both sides of zero round alike."""
        del bounds
        return 1

    def is_uniform(self) -> bool:
        """Whether all channels have one factor."""
        return bool((self.factor == self.factor[0]).all())

    def outputs(self, sums: Int64) -> Int64:
        """What sums [..., channels] become before zero points and bounds."""
        return np.rint(sums.astype(np.float32) * self.factor).astype(np.int64)

    def thresholds(self, bounds: tuple[int, int], zero: int) -> Thresholds:
        """The thresholds of rounded products between bounds, which exclude the zero point.

        A product reaches a level, or is more where that is odd, from the middle between two floats
        on. The quotient that says from which sum may miss by one, so its neighbours are looked at.
        """
        levels = np.arange(bounds[0] + 1, bounds[1] + 1)[None]
        edge = (levels - 0.5).astype(np.float32)
        other = np.nextafter(edge, np.where(levels % 2 == 0, -np.inf, np.inf).astype(np.float32))
        middle = (edge.astype(np.float64) + other) / 2
        above = np.ceil(middle / self.slopes()[:, None]).astype(np.int64) - 1
        missed = sum(levels > self.outputs((above + step).T).T for step in range(3))
        return Thresholds.of(levels, above + missed, self, zero)


Rounding = FixedPoint | SingleFactor


def _reach(scale: Rounding, place: Rows) -> tuple[Int64, Int64]:
    """The least and the most sums of channels that share a scale, and zero."""
    least, most = (np.zeros(place.max(initial=-1) + 1, np.int64) for _ in range(2))
    np.minimum.at(least, place, scale.least)
    np.maximum.at(most, place, scale.most)
    return least, most


class Thresholds(NamedTuple):
    """Where outputs rise, [channels, levels].

    Attributes:
        levels: What outputs rise to, zero point included; [1, levels] where all channels have all.
        below: The last sum under each threshold, or what is reached of it.
        above: The first sum on it.
        falls: Whether sums under the threshold are reached.
        rises: Whether sums on it are.
        zero: What a sum of 0 becomes.
    """

    levels: Float32
    below: Int64
    above: Int64
    falls: Bool
    rises: Bool
    zero: int

    @staticmethod
    def of(levels: Int64, above: Int64, scale: Rounding, zero: int) -> Thresholds:
        """Where outputs rise to levels, zero point excluded, within what sums reach."""
        least, most = scale.least[:, None], scale.most[:, None]
        falls, rises = above > least, above <= most
        below, above = np.clip(above - 1, least, most), np.clip(above, least, most)
        return Thresholds((levels + zero).astype(np.float32), below, above, falls, rises, zero)

    def at(self, channels: Rows | Bool) -> Thresholds:
        """The thresholds of some channels."""
        levels, below, above, falls, rises, zero = self
        there = below[channels], above[channels], falls[channels], rises[channels]
        return Thresholds(levels if len(levels) == 1 else levels[channels], *there, zero)

    def tightest(self, slope: Float64, sides: int) -> Thresholds:
        """The thresholds of each side that leave maps of a slope the least room, tightest first."""
        middle, _ = _corridors(self, slope, sides)
        rise = self.levels - 0.5 - np.where(self.below < 0, middle[:, :1], middle[:, -1:])
        under = np.where(self.falls, rise - slope * self.below, np.inf)
        over = np.where(self.rises, slope * self.above - rise, np.inf)
        room = np.minimum(under, over)
        negative = self.below < 0
        parts = (
            [room]
            if sides == 1
            else [np.where(negative, room, np.inf), np.where(negative, np.inf, room)]
        )
        count = min(_TIGHT, room.shape[1])
        picks = [np.argsort(part.astype(np.float32), axis=1)[:, :count] for part in parts]
        ordered = [pick[:, cut] for cut in (_FIRST, _REST) for pick in picks]
        tight = np.concatenate(ordered, axis=1)
        levels = np.broadcast_to(self.levels, self.below.shape)
        rows = Thresholds(levels, self.below, self.above, self.falls, self.rises, self.zero)
        return rows.map(lambda row: np.take_along_axis(row, tight, 1))

    def map(self, pick: Callable[[np.ndarray], np.ndarray]) -> Thresholds:
        """The thresholds with every array changed alike."""
        levels, below, above, falls, rises = (pick(np.asarray(row)) for row in self[:5])
        return Thresholds(levels, below, above, falls, rises, self.zero)


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
    tame = scale.is_tame(floats)
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
    tight = thresholds.tightest(slopes[:, None], sides)
    for search in (_QUICK, _THOROUGH):
        for move in search.moves:
            left = np.flatnonzero(~found)
            if not left.size or (search is _THOROUGH and left.size > max(_FEW, count // 4)):
                break
            slope = nearest[left] + np.float32(move) * np.spacing(nearest[left])
            fits = _try(maps, left, tight.at(left), slope.astype(np.float32), search)
            found[left[fits]] = maps.at(left[fits]).matches(thresholds.at(left[fits]))
    return maps, found


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
