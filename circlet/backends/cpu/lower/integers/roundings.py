"""How sums of channels are rounded to outputs, and the sums at which these rise.

Over the sums that a channel can reach, its outputs are a monotone step function of at most 255
thresholds. TFLite's reference multiplies by a mantissa and rounds ties away from zero, which moves
thresholds on one side of it; ONNX Runtime multiplies floats and rounds ties to even.
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


class FixedPoint(NamedTuple):
    """How sums of channels become outputs, before bounds: mantissas, right shifts, sums' reach."""

    mantissa: Int64
    right: Int64
    least: Int64
    most: Int64

    def is_tame(self, most_shift: int) -> Bool:
        """For which channels a map is worth a search, up to a right shift."""
        return np.asarray((self.mantissa > 0) & (self.right >= 0) & (self.right <= most_shift))

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

    def is_tame(self, most_shift: int) -> Bool:
        """For which channels a map is worth a search, up to a right shift."""
        return np.asarray((self.factor < 1) & (self.factor >= 2.0 ** -(most_shift + 1)))

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

    def map(self, pick: Callable[[np.ndarray], np.ndarray]) -> Thresholds:
        """The thresholds with every array changed alike."""
        levels, below, above, falls, rises = (pick(np.asarray(row)) for row in self[:5])
        return Thresholds(levels, below, above, falls, rises, self.zero)
