"""Float products in the terms of `conv_f32.h`: where pixels are, and a convolution over them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lower.floats.computed_weights import ComputedWeights
from circlet.backends.cpu.lowering import ParamValue, Ref, TensorRef
from circlet.ir import Tensor

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class View:
    """Pixels of a tensor: where the first one is, and the elements between neighbours."""

    tensor: Tensor
    offset: int
    batch: int
    row: int
    pixel: int

    @classmethod
    def whole(cls, tensor: Tensor, layout: Layout) -> View:
        """Every pixel of a tensor."""
        return cls(tensor, 0, layout.batch_stride, layout.row_stride, layout.pixel_stride)

    @property
    def ref(self) -> Ref:
        """The address of the first pixel."""
        return TensorRef(self.tensor, self.offset)

    def strides(self, prefix: str) -> dict[str, ParamValue]:
        """The kernel's parameters for this operand."""
        names = (f"{prefix}_batch", f"{prefix}_row", f"{prefix}_pixel")
        return dict(zip(names, (self.batch, self.row, self.pixel), strict=True))


@dataclass(frozen=True)
class Matrix:
    """A convolution in the terms of `conv_f32.h`.

    Attributes:
        source: Input at the first tap of each output pixel.
        result: Output pixels.
        sizes: Images, rows of an image, pixels of a row.
        weights: [filters, window rows, window columns, input channels of a group]; `unknown` where
            they are computed.
        bias: One value per filter, or None.
        taps: Input elements between rows and between columns of the window.
        groups: Groups of filters, each over its own input channels.
        activation: Fused activation's name.
        addend: Added before the activation, or None.
        add_channels: Channels that the addend has.
        part: Tells matrices of one op apart whose weights differ.
        rounded: Whether the source holds bfloat16, and weights become such.
        computed: Where weights and bias lie that are known at run time only, or None.
    """

    source: View
    result: View
    sizes: tuple[int, int, int]
    weights: FloatArray
    bias: FloatArray | None
    taps: tuple[int, int]
    groups: int = 1
    activation: str = "NONE"
    addend: View | None = None
    add_channels: int = 0
    part: tuple[int, ...] = ()
    rounded: bool = False
    computed: ComputedWeights | None = None

    @property
    def depth(self) -> int:
        """Multiply-adds of one output."""
        return int(self.weights[0].size)

    @property
    def multiply_adds(self) -> int:
        """Those of all outputs."""
        return prod(self.sizes) * int(self.weights.size)
