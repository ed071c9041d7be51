"""Stored images copied with the sign that products take, with a border of their zero point."""

from __future__ import annotations

from typing import NamedTuple

from circlet.backends.cpu.layout import Border, Layout, bordered
from circlet.backends.cpu.lower.integers.i8mm import product_offset
from circlet.backends.cpu.lower.products.product import View
from circlet.backends.cpu.lower.views import image_strides
from circlet.backends.cpu.lowering import Context, Kernel, NoRef, ParamValue, Ref, TensorRef
from circlet.ir import DType, Op
from circlet.ops.operands import operand

_RECORD_BYTES = 8


class StoredImages(NamedTuple):
    """Images as the products take them.

    Attributes:
        data: The first pixel of the border.
        layout: Where pixels lie.
        scales: The record of the zero point of each image.
    """

    data: TensorRef
    layout: Layout
    scales: TensorRef

    def view(self, batch: int, row: int, pixel: int) -> View:
        """Windows from the border on."""
        return View(self.data.tensor, self.data.offset, batch, row, pixel)


def stored_images(op: Op, context: Context, border: Border, zero: Ref) -> StoredImages:
    """The images of an op where they lie, or copies with a border and with changed top bits.

    Args:
        op: Its first operand is the images.
        context: The plan.
        border: Around each image.
        zero: Their zero point, of their type; nothing where it is 0.
    """
    data = operand(op, 0)
    source = context.layout(data)
    offset = product_offset(data, context.target)
    copies = offset != 0 or bool(border)
    image = bordered(data, border) if copies else source
    rows = image.buffer_elements // image.row_stride // image.batch if copies else 1
    params: dict[str, ParamValue] = {
        **image_strides("image_in", source),
        "image_out_batch": image.batch_stride,
        "image_height": source.height,
        "image_width": source.width,
        "image_depth": source.channels,
        **{f"image_{side}": size for side, size in border.sides.items()},
        "rows": rows,
        "flip": offset,
    }
    scales = context.temporary(op, image.batch * _RECORD_BYTES)
    made = context.temporary(op, image.buffer_elements) if copies else None
    operands: tuple[Ref, ...] = (TensorRef(data), zero, made or NoRef(), scales)
    written = (scales.tensor, *((made.tensor,) if made else ()))
    forms = data.dtype is DType.INT8, copies, offset != 0
    kernel = Kernel("stored_image.h", "stored_image", tuple(map(int, forms)))
    context.call(op, kernel, params, operands, written, tasks=image.batch * rows)
    return StoredImages(TensorRef(data) if made is None else made, image, scales)
