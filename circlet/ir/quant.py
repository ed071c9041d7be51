"""Quantisation parameters of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from circlet.cached import cached_property
from circlet.errors import GraphError

if TYPE_CHECKING:
    from circlet.ir.graph import Tensor

_BLOCKS = "BlockwiseQuantization"


class QuantDetails(Protocol):
    """A form of quantisation beyond scale and zero point; `formats` knows its table by name."""

    @property
    def table(self) -> str:
        """Name of the schema table that stores it."""
        ...


@dataclass(frozen=True)
class BlockwiseQuant:
    """Scales per block of `block_size` elements of a row, in other tensors (TFLite, int4).

    Attributes:
        scales: [rows, blocks of a row], of a float type.
        zero_points: The same shape, of integers; None for zeros.
        block_size: Elements of a block.
    """

    scales: Tensor
    zero_points: Tensor | None
    block_size: int

    @property
    def table(self) -> str:
        """Name of the schema table that stores it."""
        return _BLOCKS

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that it refers to."""
        return (self.scales,) if self.zero_points is None else (self.scales, self.zero_points)

    def __str__(self) -> str:
        return f"blocks of {self.block_size} by {', '.join(t.name for t in self.tensors)}"


@dataclass(frozen=True)
class BlockIndices:
    """`BlockwiseQuant` as files say it, by places in the graph's list; -1 for no zero points."""

    scales: int
    zero_points: int
    block_size: int

    @property
    def table(self) -> str:
        """Name of the schema table that stores it."""
        return _BLOCKS


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


def link_blocks(tensors: Sequence[Tensor]) -> None:
    """Have tensors that a reader made refer to others themselves, and no more by their places.

    Args:
        tensors: All of a graph, at their places.

    Raises:
        GraphError: There is no tensor at a place, or it is quantised by blocks itself.
    """
    listed = [t for t in tensors if t.quant and isinstance(t.quant.details, BlockIndices)]
    for tensor in listed:
        quant = tensor.quant
        assert quant is not None and isinstance(quant.details, BlockIndices)
        said = quant.details
        for place in (said.scales, max(said.zero_points, 0)):
            if not 0 <= place < len(tensors):
                raise _unfit(tensor, "lie in a tensor that does not exist", place, tensors)
            if tensors[place] in listed:
                raise _unfit(tensor, "are quantised by blocks themselves", place, tensors)
        zeros = tensors[said.zero_points] if said.zero_points >= 0 else None
        details = BlockwiseQuant(tensors[said.scales], zeros, said.block_size)
        tensor.quant = replace(quant, details=details)


def _unfit(tensor: Tensor, how: str, place: int, tensors: Sequence[Tensor]) -> GraphError:
    why = f"tensor {place} of {len(tensors)}"
    return GraphError(f"the scales of a tensor {how}", where=tensor.name, why=why)
