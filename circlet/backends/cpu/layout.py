"""Where a tensor's elements sit in memory: dense, inside a bordered buffer, or inside another."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from circlet.ir import Tensor


class Border(NamedTuple):
    """Rows and columns of padding around the image of an NHWC tensor.

    With the padding in memory, windows at the edge are read as all others are, without a branch.

    Attributes:
        top, left, bottom, right: Rows and columns.
        channels: Elements between the last channel of a pixel and the first of the next, where
            pixels at a distance of a power of two would meet in few sets of a cache.
    """

    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0
    channels: int = 0

    def __or__(self, other: Border) -> Border:
        """The smallest border that holds both."""
        return Border(*map(max, self, other))

    def __bool__(self) -> bool:
        return any(self)

    @property
    def sides(self) -> dict[str, int]:
        """Rows and columns by their names."""
        return {"top": self.top, "left": self.left, "bottom": self.bottom, "right": self.right}


_NO_BORDER = Border()


class Layout(NamedTuple):
    """A tensor seen as NHWC with strides in elements; channels are always contiguous.

    Tensors of other ranks are seen as [1, 1, rows, last dimension].

    Attributes:
        batch, height, width, channels: Sizes.
        batch_stride, row_stride, pixel_stride: Elements between neighbours.
        offset: Elements from the start of the buffer to element (0, 0, 0, 0).
        buffer_elements: Elements of the buffer that holds the tensor, borders included.
        border: Planned padding inside the buffer, filled with zero or the zero point.
    """

    batch: int
    height: int
    width: int
    channels: int
    batch_stride: int
    row_stride: int
    pixel_stride: int
    offset: int
    buffer_elements: int
    border: Border = _NO_BORDER

    @property
    def pixels(self) -> int:
        """Number of channel vectors."""
        return self.batch * self.height * self.width

    @property
    def is_dense(self) -> bool:
        """Whether the elements are contiguous in order."""
        return (
            self.pixel_stride == self.channels
            and self.row_stride == self.width * self.channels
            and (self.batch == 1 or self.batch_stride == self.height * self.row_stride)
        )

    @property
    def has_even_pixels(self) -> bool:
        """Whether all pixels are `pixel_stride` apart, so that rows and images flow together."""
        return self.row_stride == self.width * self.pixel_stride and (
            self.batch == 1 or self.batch_stride == self.height * self.row_stride
        )

    def inside(self, pixel_stride: int, channel_offset: int) -> Layout:
        """This dense tensor as a range of channels of a buffer with longer pixels."""
        row_stride = self.width * pixel_stride
        return self._replace(
            pixel_stride=pixel_stride,
            row_stride=row_stride,
            batch_stride=self.height * row_stride,
            offset=channel_offset,
            buffer_elements=self.pixels * pixel_stride,
        )


def dense(tensor: Tensor) -> Layout:
    """The layout without borders."""
    return bordered(tensor, _NO_BORDER)


def bordered(tensor: Tensor, border: Border) -> Layout:
    """The layout of a tensor in the middle of a buffer with a border."""
    batch, height, width, channels = nhwc(tensor.static_shape)
    buffer_width = border.left + width + border.right
    buffer_height = border.top + height + border.bottom
    pixel = channels + border.channels
    row = buffer_width * pixel
    return Layout(
        batch,
        height,
        width,
        channels,
        batch_stride=buffer_height * row,
        row_stride=row,
        pixel_stride=pixel,
        offset=border.top * row + border.left * pixel,
        buffer_elements=batch * buffer_height * row,
        border=border,
    )


def nhwc(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """A shape seen as (batch, height, width, channels)."""
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    channels = shape[-1] if shape else 1
    return 1, 1, prod(shape[:-1]), channels
