"""The parts of a chain that runs stripe by stripe: each lowered as if a few rows were its image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from circlet.backends.cpu.layout import Layout
from circlet.ir import Op, Tensor
from circlet.ops.conv import window_of
from circlet.ops.fused import FUSED_RESIDUAL, FusedAttrs
from circlet.ops.geometry import UNPADDED, Window, Window2D
from circlet.ops.operands import operand
from circlet.plan.stripes import Stage

_ADDEND = 3
_PIXELS = Window2D(UNPADDED, Window(1), Window(1))


class Strides(NamedTuple):
    """Elements between rows and between pixels of an image, wherever it is."""

    row: int
    pixel: int

    def layout(self, tensor: Tensor) -> Layout:
        """The layout of a tensor of rows with these strides."""
        _, height, width, channels = tensor.static_shape
        size = height * self.row
        return Layout(1, height, width, channels, size, self.row, self.pixel, 0, size)


@dataclass(frozen=True)
class Part:
    """One op of a chain."""

    op: Op

    @property
    def layer(self) -> Op:
        """The convolution in it."""
        if self.op.kind != FUSED_RESIDUAL:
            return self.op
        return self.op.attributes(FusedAttrs).parts[0]

    @property
    def is_copy(self) -> bool:
        """Whether it brings rows of the chain's input to where they have padding around them."""
        return self.op.kind == "RESHAPE"

    @property
    def source(self) -> Tensor:
        """The image that its windows cover."""
        return operand(self.op, 0)

    @property
    def result(self) -> Tensor:
        """The image that it makes."""
        return self.op.outputs[0]

    @property
    def addend(self) -> Tensor | None:
        """An image of the same rows that is added, or one pixel."""
        return operand(self.op, _ADDEND) if self.op.kind == FUSED_RESIDUAL else None

    @property
    def adds_rows(self) -> bool:
        """Whether each row of outputs adds a row of its own."""
        return self.addend is not None and self.addend.static_shape[1] > 1

    @property
    def window(self) -> Window2D:
        """Its windows; those of a copy are its pixels."""
        return _PIXELS if self.is_copy else window_of(self.layer)

    @property
    def left(self) -> int:
        """Columns of padding before the first window."""
        _, height, width, _ = self.source.static_shape
        return self.window.pads(height, width)[1][0]

    @property
    def width(self) -> int:
        """Columns that windows cover, padding among them."""
        across = self.window.columns
        return (self.result.static_shape[2] - 1) * across.stride + across.extent

    @property
    def stage(self) -> Stage:
        """What it does to rows."""
        _, height, width, _ = self.source.static_shape
        (top, _), _ = self.window.pads(height, width)
        return Stage(self.result.static_shape[1], self.window.rows, top)


class ImageStrides(NamedTuple):
    """The strides of the images of a part; the addend's where there is one."""

    source: Strides
    result: Strides
    addend: Strides | None


class RowsOp(NamedTuple):
    """A part over some rows, as an op of its own: the stand-ins of its images."""

    op: Op
    source: Tensor
    result: Tensor
    addend: Tensor | None
    layouts: Mapping[Tensor, Layout]


def rows_of(part: Part, count: int, strides: ImageStrides) -> RowsOp:
    """The part over windows of `count` rows that lie in an image with all its padding."""
    down = part.window.rows
    _, _, width, filters = part.result.static_shape
    covered = (count - 1) * down.stride + down.extent
    source = _rows(part.source, covered, part.width, part.source.static_shape[3])
    result = _rows(part.result, count, width, filters)
    layouts = {source: strides.source.layout(source), result: strides.result.layout(result)}
    if part.is_copy:
        copy = replace(part.op, inputs=[source], outputs=[result])
        return RowsOp(copy, source, result, None, layouts)
    attrs: Any = replace(part.layer.attrs, padding=UNPADDED)  # type: ignore[type-var]
    inputs: list[Tensor | None] = [source, *part.layer.inputs[1:]]
    layer = replace(part.layer, inputs=inputs, outputs=[result], attrs=attrs)
    if strides.addend is None:
        return RowsOp(layer, source, result, None, layouts)
    addend = _addend(part, count)
    layouts[addend] = strides.addend.layout(addend)
    inputs = [source, *part.op.inputs[1:_ADDEND], addend]
    fused = FusedAttrs((layer, *part.op.attributes(FusedAttrs).parts[1:]))
    whole = replace(part.op, inputs=inputs, outputs=[result], attrs=fused)
    return RowsOp(whole, source, result, addend, layouts)


def _rows(tensor: Tensor, height: int, width: int, channels: int) -> Tensor:
    return Tensor(tensor.name, tensor.dtype, (1, height, width, channels), tensor.quant)


def _addend(part: Part, count: int) -> Tensor:
    assert part.addend is not None
    _, height, width, channels = part.addend.static_shape
    return _rows(part.addend, min(height, count), width, channels)
