"""Quantisation parameters of a tensor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from circlet.cached import cached_property


class QuantDetails(Protocol):
    """A form of quantisation beyond scale and zero point; `formats` knows its table by name."""

    @property
    def table(self) -> str:
        """Name of the schema table that stores it."""
        ...


@dataclass(frozen=True)
class BlockwiseQuant:
    """Scales per block of `block_size` elements; they live in another tensor (TFLite, int4)."""

    scales_tensor: int
    zero_points_tensor: int
    block_size: int
    table: str = "BlockwiseQuantization"


@dataclass(frozen=True)
class OpaqueQuant:
    """A form of quantisation that is carried through unread (custom, MX, multi-axis)."""

    table: str
    fields: dict[str, object] = field(hash=False)


@dataclass(frozen=True, eq=False)
class Quantization:
    """Affine quantisation: real = scale * (stored - zero_point).

    Attributes:
        scale: float32, shape [1] (per tensor) or [channels] (per channel along `axis`).
        zero_point: int64, the shape of `scale`.
        axis: Dimension of the tensor that the channels run along.
        minimum, maximum: float32, recorded range, empty when absent.
        details: A further form of quantisation, or None.
    """

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int64]
    axis: int = 0
    minimum: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    maximum: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    details: QuantDetails | None = None

    @staticmethod
    def per_tensor(scale: float, zero_point: int = 0) -> Quantization:
        """One scale and zero point for the whole tensor."""
        return Quantization(np.array([scale], np.float32), np.array([zero_point], np.int64))

    @staticmethod
    def per_channel(scale: npt.ArrayLike, axis: int, zero_point: npt.ArrayLike = 0) -> Quantization:
        """One scale and zero point for each index along `axis`."""
        scales = np.asarray(scale, np.float32)
        zeros = np.broadcast_to(np.asarray(zero_point, np.int64), scales.shape).copy()
        return Quantization(scales, zeros, axis)

    @cached_property
    def first(self) -> tuple[np.float32, int]:
        """The first scale and zero point, of a tensor that is quantised as a whole."""
        return np.float32(self.scale[0]), int(self.zero_point[0])

    @cached_property
    def text(self) -> str:
        """All of it but the recorded range."""
        return f"{self.scale.tolist()} {self.zero_point.tolist()} {self.axis} {self.details}"

    @cached_property
    def largest_scale(self) -> np.float32:
        """The largest scale; not a number where one is not, or there is none."""
        return np.max(self.scale, initial=-np.inf) if self.scale.size else np.float32(np.nan)

    @cached_property
    def is_positive(self) -> bool:
        """Whether every scale is a positive finite number."""
        return bool(np.isfinite(self.scale).all() and (self.scale > 0).all())

    @cached_property
    def zero_point_range(self) -> tuple[int, int]:
        """The smallest and the largest zero point, (0, 0) where there is none."""
        points = self.zero_point
        return (int(points.min()), int(points.max())) if points.size else (0, 0)

    @property
    def is_affine(self) -> bool:
        """Whether scales are present, so that stored values have a real meaning."""
        return self.scale.size > 0

    @property
    def is_per_channel(self) -> bool:
        """Whether more than one scale is stored."""
        return self.scale.size > 1

    def same_as(self, other: Quantization | None) -> bool:
        """Whether both give every stored value the same real meaning."""
        if other is None:
            return False
        return (
            np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
            and (self.axis == other.axis or not self.is_per_channel)
            and self.details == other.details
        )
