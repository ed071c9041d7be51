"""Seeded choices that cases are made of: sizes, values, scales and axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt

from circlet.ir import DType, Quantization
from circlet.ops.operands import QUANTISED, limits

T = TypeVar("T")
Sizes = tuple[int, ...]
MOST_ELEMENTS = 4096
STYLES = ("plain", "plain", "special", "nan", "limits")
_PLAIN = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 6.0)
_SPECIAL = (*_PLAIN, np.inf, -np.inf, 1e-45, -1e-40, 1.1754944e-38, 3e-39)
_NAN = (*_SPECIAL, np.nan)
_LIMITS = (3.4028235e38, -3.4028235e38, 1e30, -1e30, 2147483648.0, -2147483904.0, 16777217.0)
_POOLS = {"plain": _PLAIN, "special": _SPECIAL, "nan": _NAN, "limits": (*_PLAIN, *_LIMITS)}
_POOLS["small"] = _PLAIN


@dataclass(frozen=True)
class Operand:
    """A value that an operator is given.

    Attributes:
        constant: Whether the network holds it; otherwise the caller gives it.
    """

    array: npt.NDArray[np.generic]
    quant: Quantization | None = None
    constant: bool = False

    @property
    def dtype(self) -> DType:
        """The element type."""
        return DType.of(self.array)


class Draw:
    """Choices of one case; the same for the same key on every machine.

    Attributes:
        style: "plain" for common values, "special" for infinities, denormals and signed zeros
            among them, "nan" for NaN as well, "limits" for the ends of the type's range; "small"
            for common values near 1, whose sums lose few digits.
    """

    def __init__(self, seed: int, kind: str, number: int) -> None:
        self.rng = np.random.default_rng([seed, crc32(kind.encode()), number])
        self.style = self.pick(STYLES)

    @property
    def is_plain(self) -> bool:
        """Whether values are common ones."""
        return self.style in ("plain", "small")

    def pick(self, choices: Sequence[T]) -> T:
        """One of some choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        """True in a share of the cases."""
        return bool(self.rng.random() < share)

    def integer(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return int(self.rng.integers(low, high, endpoint=True))

    def size(self, empty: float = 0.04) -> int:
        """A size; 0 in a share of the cases."""
        return 0 if self.chance(empty) else self.pick((1, 1, 2, 2, 3, 4, 5, 7, 9, 17))

    def shape(self, low: int = 0, high: int = 5, empty: float = 0.04) -> Sizes:
        """Sizes of `low` to `high` dimensions and at most a few thousand elements."""
        sizes: list[int] = []
        for _ in range(self.integer(low, high)):
            size = self.size(empty)
            sizes.append(size if np.prod([*sizes, size]) <= MOST_ELEMENTS else 1)
        return tuple(sizes)

    def spread(self, whole: Sizes) -> Sizes:
        """Sizes that broadcast to some sizes: dimensions dropped from the front, or of size 1."""
        kept = whole[self.pick((0, 0, 0, self.integer(0, len(whole)))) :]
        return tuple(1 if self.chance(0.2) else size for size in kept)

    def axis(self, rank: int) -> int:
        """An axis, counted from either end; once in a while one that does not exist."""
        if self.chance(0.02):
            return self.pick((rank, -rank - 1))
        return self.integer(-rank, rank - 1) if rank else 0

    def values(self, dtype: DType, shape: Sizes) -> npt.NDArray[np.generic]:
        """Elements of a type in the style of the case."""
        kind = dtype.numpy
        if kind.kind == "b":
            return np.asarray(self.rng.integers(0, 2, shape).astype(np.bool_))
        if kind.kind in "iu":
            return self._integers(dtype, shape)
        if kind.kind == "c":
            real, imaginary = (self._floats(shape) for _ in range(2))
            return np.stack([real, imaginary], -1).view(np.complex64)[..., 0]
        with np.errstate(over="ignore", under="ignore"):
            return self._floats(shape).astype(kind)

    def _integers(self, dtype: DType, shape: Sizes) -> npt.NDArray[np.generic]:
        info = np.iinfo(dtype.name.lower())
        low, high = int(info.min), int(info.max)
        if self.is_plain and dtype.bits > 16:
            low, high = max(low, -9), 9
        values = self.rng.integers(low, high, shape, dtype.numpy, endpoint=True)
        if not self.is_plain:
            ends = np.array([low, low + 1, 0, 1, high - 1, high], dtype.numpy)
            some = self.rng.random(shape) < 0.4
            values = np.where(some, self.rng.choice(ends, shape), values)
        return np.asarray(values, dtype.numpy)

    def _floats(self, shape: Sizes) -> npt.NDArray[np.float32]:
        values = self.rng.standard_normal(shape) * self.pick(
            (1.0, 1.0, 1.0) if self.style == "small" else (1.0, 4.0, 30.0)
        )
        chosen = _POOLS[self.style]
        some = self.rng.random(shape) < (0.1 if self.is_plain else 0.4)
        with np.errstate(over="ignore", under="ignore"):
            mixed = np.where(some, self.rng.choice(np.array(chosen, np.float32), shape), values)
        return np.asarray(mixed, np.float32)

    def quant(self, dtype: DType, like: float = 0.0) -> Quantization | None:
        """Scale and zero point of a quantised type, None for others; near a scale where given."""
        if dtype not in QUANTISED:
            return None
        middle = like or (2.0**-12 if dtype is DType.INT16 else 2.0**-5)
        scale = middle * 2.0 ** self.rng.uniform(-3, 3)
        low, high = limits(dtype)
        ends = (0, low, high, self.integer(low, high), self.integer(low, high))
        return Quantization.per_tensor(scale, 0 if dtype is DType.INT16 else self.pick(ends))

    def data(
        self, dtype: DType, shape: Sizes, quant: Quantization | None = None, constant: float = 0.15
    ) -> Operand:
        """An operand of drawn values; constant in a share of the cases."""
        found = self.quant(dtype) if quant is None else quant
        return Operand(self.values(dtype, shape), found, self.chance(constant))

    def ints(
        self, values: npt.ArrayLike, dtype: DType = DType.INT32, constant: float = 0.8
    ) -> Operand:
        """An operand of given whole numbers, such as axes and sizes."""
        return Operand(np.asarray(values, dtype.numpy), None, self.chance(constant))
