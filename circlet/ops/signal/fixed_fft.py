"""Fourier transforms of 16- and 32-bit integers, bit for bit those of KISS FFT in fixed point.

Each stage of radix p scales its operands by 1/p, and nothing overflows; sums wrap as those of C do.
A pair (real, imaginary) of int64 arrays holds complex numbers; transforms are along the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, floor, pi, sin

import numpy as np

Complex = tuple[np.ndarray, np.ndarray]
_RADICES = (4, 2, 3, 5)


def radices_of(length: int) -> tuple[int, ...] | None:
    """The radices of a complex transform in order; None where another than 2 to 5 is needed."""
    found: list[int] = []
    for radix in _RADICES:
        while length > 1 and length % radix == 0:
            found.append(radix)
            length //= radix
    return tuple(found) if length == 1 and found else None


@dataclass(frozen=True)
class FixedPoint:
    """Numbers of `bits` bits of fraction and a sign, 15 or 31, and how they are computed with."""

    bits: int

    @property
    def most(self) -> int:
        """The largest number, which stands for 1."""
        return (1 << self.bits) - 1

    def wrap(self, x: np.ndarray) -> np.ndarray:
        """Whole numbers modulo the size of the type."""
        kind = np.int16 if self.bits == 15 else np.int32
        return x.astype(kind).astype(np.int64)

    def rounded(self, product: np.ndarray) -> np.ndarray:
        """A product of two numbers as a number, halves rounded up."""
        return self.wrap((product + (1 << (self.bits - 1))) >> self.bits)

    def divided(self, x: Complex, radix: int) -> Complex:
        """Complex numbers divided by a radix."""
        factor = self.most // radix
        return self.rounded(x[0] * factor), self.rounded(x[1] * factor)

    def times(self, x: Complex, y: Complex) -> Complex:
        """The product of complex numbers."""
        real = self.rounded(x[0] * y[0] - x[1] * y[1])
        return real, self.rounded(x[0] * y[1] + x[1] * y[0])

    def plus(self, x: Complex, y: Complex) -> Complex:
        """The sum of complex numbers."""
        return self.wrap(x[0] + y[0]), self.wrap(x[1] + y[1])

    def minus(self, x: Complex, y: Complex) -> Complex:
        """The difference of complex numbers."""
        return self.wrap(x[0] - y[0]), self.wrap(x[1] - y[1])

    def half(self, x: np.ndarray) -> np.ndarray:
        """Half of sums that were made in 32 bits, rounded down."""
        return self.wrap(x.astype(np.int32).astype(np.int64) >> 1)

    def roots(self, phases: list[float]) -> Complex:
        """Points of the unit circle at angles in radians."""
        real = [floor(0.5 + self.most * cos(phase)) for phase in phases]
        imaginary = [floor(0.5 + self.most * sin(phase)) for phase in phases]
        return np.array(real, np.int64), np.array(imaginary, np.int64)


def real_transform(x: np.ndarray, point: FixedPoint) -> np.ndarray:
    """The first half of the spectrum of an even number of reals, and the middle: re, im, re, ..."""
    half = x.size // 2
    pairs = x.astype(np.int64).reshape(half, 2)
    made = _transform((pairs[:, 0], pairs[:, 1]), point, inverse=False)
    first = point.divided((made[0][:1], made[1][:1]), 2)
    spectrum = np.zeros((half + 1, 2), np.int64)
    spectrum[0, 0] = point.wrap(first[0] + first[1])[0]
    spectrum[half, 0] = point.wrap(first[0] - first[1])[0]
    low, high = np.arange(1, half // 2 + 1), half - np.arange(1, half // 2 + 1)
    even, odd = _sum_and_difference(made, low, high, point)
    turned = point.times(odd, super_roots(half, point, inverse=False))
    spectrum[low, 0] = point.half(even[0] + turned[0])
    spectrum[low, 1] = point.half(even[1] + turned[1])
    spectrum[high, 0] = point.half(even[0] - turned[0])
    spectrum[high, 1] = point.half(turned[1] - even[1])
    return spectrum.reshape(-1)


def inverse_real_transform(spectrum: np.ndarray, point: FixedPoint) -> np.ndarray:
    """The reals whose spectrum `real_transform` gives, divided by their number once more."""
    pairs = spectrum.astype(np.int64).reshape(-1, 2)
    given, half = (pairs[:, 0], pairs[:, 1]), len(pairs) - 1
    ends = point.wrap(np.stack([given[0][0] + given[0][half], given[0][0] - given[0][half]]))
    work = np.zeros(half, np.int64), np.zeros(half, np.int64)
    (work[0][0],), (work[1][0],) = point.divided((ends[:1], ends[1:]), 2)
    low, high = np.arange(1, half // 2 + 1), half - np.arange(1, half // 2 + 1)
    even, odd = _sum_and_difference(given, low, high, point)
    turned = point.times(odd, super_roots(half, point, inverse=True))
    work[0][low], work[1][low] = point.plus(even, turned)
    real, imaginary = point.minus(even, turned)
    work[0][high], work[1][high] = real, point.wrap(-imaginary)
    made = _transform(work, point, inverse=True)
    return np.stack(made, axis=-1).reshape(-1)


def _sum_and_difference(
    x: Complex, low: np.ndarray, high: np.ndarray, point: FixedPoint
) -> tuple[Complex, Complex]:
    """Half of the elements at `low` plus and minus the conjugates of those at `high`."""
    first = point.divided((x[0][low], x[1][low]), 2)
    second = point.divided((x[0][high], point.wrap(-x[1][high])), 2)
    return point.plus(first, second), point.minus(first, second)


def super_roots(half: int, point: FixedPoint, *, inverse: bool) -> Complex:
    """The roots that part the spectra of the even and the odd elements of `half` pairs."""
    sign = 1 if inverse else -1
    return point.roots([sign * pi * ((i + 1) / half + 0.5) for i in range(half // 2)])


def circle(length: int, point: FixedPoint, *, inverse: bool) -> Complex:
    """The roots of unity that a complex transform of this length multiplies by."""
    sign = 2 if inverse else -2
    return point.roots([sign * pi * i / length for i in range(length)])


def _transform(x: Complex, point: FixedPoint, *, inverse: bool) -> Complex:
    length = x[0].shape[-1]
    stages = _Stages(point, circle(length, point, inverse=inverse), inverse)
    return stages.run(x, radices_of(length) or ())


@dataclass(frozen=True)
class _Stages:
    """The stages of one transform over the roots of unity of its whole length."""

    point: FixedPoint
    roots: Complex
    inverse: bool

    def run(self, x: Complex, radices: tuple[int, ...]) -> Complex:
        """Transforms along the last axis: one of each p-th element, then a butterfly of those."""
        if not radices:
            return x
        radix, rest = radices[0], radices[1:]
        real, imaginary = (
            np.moveaxis(part.reshape(*part.shape[:-1], -1, radix), -1, -2) for part in x
        )
        inner = self.run((real, imaginary), rest)
        parts = [
            self.point.divided((inner[0][..., i, :], inner[1][..., i, :]), radix)
            for i in range(radix)
        ]
        made = _BUTTERFLIES[radix](self, [parts[0], *self._turned(parts)])
        pieces = (np.concatenate([part[i] for part in made], axis=-1) for i in range(2))
        real, imaginary = pieces
        return real, imaginary

    def _turned(self, parts: list[Complex]) -> list[Complex]:
        """All parts but the first, times the roots that belong to their places."""
        count = parts[0][0].shape[-1]
        stride = self.roots[0].size // (count * len(parts))
        return [
            self.point.times(part, self.root(np.arange(count) * stride * number))
            for number, part in enumerate(parts[1:], 1)
        ]

    def root(self, index: np.ndarray | int) -> Complex:
        """Roots of unity by their numbers."""
        return self.roots[0][index], self.roots[1][index]

    def part_of_circle(self, radix: int, number: int = 1) -> Complex:
        """The root at `number` of `radix` parts of the circle."""
        return self.root(self.roots[0].size // radix * number)


def _butterfly2(stages: _Stages, x: list[Complex]) -> list[Complex]:
    return [stages.point.plus(x[0], x[1]), stages.point.minus(x[0], x[1])]


def _butterfly3(stages: _Stages, x: list[Complex]) -> list[Complex]:
    point = stages.point
    both, apart = point.plus(x[1], x[2]), point.minus(x[1], x[2])
    sine = stages.part_of_circle(3)[1]
    apart = point.rounded(apart[0] * sine), point.rounded(apart[1] * sine)
    middle = point.minus(x[0], (point.half(both[0]), point.half(both[1])))
    turned = (-apart[1], apart[0])
    return [point.plus(x[0], both), point.plus(middle, turned), point.minus(middle, turned)]


def _butterfly4(stages: _Stages, x: list[Complex]) -> list[Complex]:
    point = stages.point
    apart, even = point.minus(x[0], x[2]), point.plus(x[0], x[2])
    odd, difference = point.plus(x[1], x[3]), point.minus(x[1], x[3])
    sign = -1 if stages.inverse else 1
    turned = (sign * difference[1], -sign * difference[0])
    return [
        point.plus(even, odd),
        point.plus(apart, turned),
        point.minus(even, odd),
        point.minus(apart, turned),
    ]


def _butterfly5(stages: _Stages, x: list[Complex]) -> list[Complex]:
    point = stages.point
    (cos1, sin1), (cos2, sin2) = stages.part_of_circle(5), stages.part_of_circle(5, 2)
    outer, outer_apart = point.plus(x[1], x[4]), point.minus(x[1], x[4])
    inner, inner_apart = point.plus(x[2], x[3]), point.minus(x[2], x[3])

    def sums(first: np.ndarray, second: np.ndarray) -> Complex:
        real, imaginary = (
            point.wrap(x[0][i] + point.rounded(outer[i] * first) + point.rounded(inner[i] * second))
            for i in range(2)
        )
        return real, imaginary

    near, far = sums(cos1, cos2), sums(cos2, cos1)
    near_turn = (
        point.wrap(point.rounded(outer_apart[1] * sin1) + point.rounded(inner_apart[1] * sin2)),
        point.wrap(-point.rounded(outer_apart[0] * sin1) - point.rounded(inner_apart[0] * sin2)),
    )
    far_turn = (
        point.wrap(-point.rounded(outer_apart[1] * sin2) + point.rounded(inner_apart[1] * sin1)),
        point.wrap(point.rounded(outer_apart[0] * sin2) - point.rounded(inner_apart[0] * sin1)),
    )
    return [
        point.plus(x[0], point.plus(outer, inner)),
        point.minus(near, near_turn),
        point.plus(far, far_turn),
        point.minus(far, far_turn),
        point.plus(near, near_turn),
    ]


_BUTTERFLIES = {2: _butterfly2, 3: _butterfly3, 4: _butterfly4, 5: _butterfly5}
