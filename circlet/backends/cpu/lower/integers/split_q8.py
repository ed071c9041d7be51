"""8-bit and hybrid layers that are several products: transposed convolutions.

They are a convolution for each phase of their strides (see `phases.py`), which is lowered as an op
of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.layout import Border, Layout
from circlet.backends.cpu.lower.integers.affine_q8 import integer_requantisation
from circlet.backends.cpu.lower.integers.conv_q8 import call_conv_q8
from circlet.backends.cpu.lower.integers.epilogue import Q8Epilogue
from circlet.backends.cpu.lower.integers.hybrid_q8 import (
    hybrid_epilogue,
    image_layout,
    quantise_images,
)
from circlet.backends.cpu.lower.integers.i8mm import product_offset
from circlet.backends.cpu.lower.integers.q8 import (
    Int8,
    fold_zero_points,
    output_bounds,
    refuses_weighted,
    signed_weights,
    weights_zero,
)
from circlet.backends.cpu.lower.integers.requantisation import Requantisation, interleaved
from circlet.backends.cpu.lower.integers.stored_images import stored_images
from circlet.backends.cpu.lower.phases import Phase, borders_of, many_phases, phases_of
from circlet.backends.cpu.lower.products.product import Product, View
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, NoRef, Rank, Ref, TensorRef
from circlet.ir import DType, Op, Tensor
from circlet.ops.operands import operand
from circlet.ops.requantize import scalar_quant
from circlet.ops.transpose_conv import transposed_window_of
from circlet.target.targets import Target

_SHAPE, _WEIGHTS, _DATA, _BIAS = range(4)


class Source(NamedTuple):
    """The image of integers that products read, and where it lies.

    Attributes:
        scales: Of each image, where floats were quantised.
        layout: One image with its border, or the input's own layout.
        images: Bytes between images.
        start: The first pixel, in elements from `data`.
        flips: Whether products change top bits, where they want bytes of another sign.
    """

    data: TensorRef
    scales: Ref
    layout: Layout
    images: int
    start: int
    flips: bool = True

    def view(self, first: int, row: int, pixel: int) -> View:
        """Windows from the element `first` of the first pixel on."""
        offset = self.data.offset + self.start + first
        return View(self.data.tensor, offset, self.images, row, pixel)


class Part(NamedTuple):
    """One product of an op: an op of its own over some weights, and where it reads and writes."""

    op: Op
    label: str
    source: View
    result: View
    sizes: tuple[int, int, int]
    taps: tuple[int, int]


def source_of(op: Op, context: Context, border: Border, *, products: int = 1) -> Source:
    """The input of [data, weights, bias], quantised by a step where it is floats.

    Bytes that several `products` want with another sign change it once for all of them.
    """
    data = operand(op, 0)
    if data.dtype is DType.FLOAT32:
        image = image_layout(op, border)
        quantised = quantise_images(op, context, image)
        start = _inside(image, border)
        return Source(quantised.data, quantised.scales, image, quantised.image_bytes, start)
    if products > 1 and product_offset(data, context.target) != 0:
        zero = context.constant(np.array(scalar_quant(data)[1], data.dtype.numpy))
        stored = stored_images(op, context, border, zero)
        image = stored.layout
        return Source(
            stored.data, NoRef(), image, image.batch_stride, _inside(image, border), False
        )
    layout = context.layout(data)
    return Source(TensorRef(data), NoRef(), layout, layout.batch_stride, 0)


def _inside(image: Layout, border: Border) -> int:
    """Elements from the first pixel of the border to the first within it."""
    return border.top * image.row_stride + border.left * image.pixel_stride


def _call(part: Part, source: Source, context: Context) -> None:
    op = part.op
    filters, rows, columns, depth = operand(op, 1).static_shape
    product = Product(
        op,
        part.source,
        part.result,
        part.sizes,
        (filters, rows, columns, depth),
        part.taps,
        lambda: signed_weights(op),
        _epilogue(op, source, context),
        part=part.label,
    )
    call_conv_q8(product, context)


def _epilogue(op: Op, source: Source, context: Context) -> Q8Epilogue:
    filters, lanes = operand(op, 1).static_shape[0], context.vector_bytes // 4
    if not isinstance(source.scales, NoRef):
        return hybrid_epilogue(op, filters, context, source.scales)
    offset, zero = product_offset(operand(op, 0), context.target), weights_zero(op)

    def requantise(values: Int8, width: int) -> Requantisation:
        folded = fold_zero_points(op, values, zero, offset)
        order = interleaved(filters, width, lanes)
        return integer_requantisation(op, folded, order, context.target)

    return Q8Epilogue(requantise, zero, source.flips and offset != 0, output_bounds(op))


def _refuses_transposed(op: Op, target: Target) -> str | None:
    if not operand(op, _SHAPE).is_constant:
        return "the output shape must be constant"
    return refuses_weighted(_as_conv(op), target) or many_phases(op)


def _as_conv(op: Op) -> Op:
    """A transposed convolution with its operands in the order of a convolution's."""
    return replace(op, inputs=[operand(op, _DATA), operand(op, _WEIGHTS), op.input(_BIAS)])


def _transposed_border(op: Op) -> dict[int, Border]:
    return {} if operand(op, _DATA).dtype is DType.FLOAT32 else borders_of(op)


def _lower_transposed(op: Op, context: Context) -> None:
    plain = _as_conv(op)
    rows, columns = phases_of(op)
    border, products = borders_of(op).get(_DATA, Border()), len(rows) * len(columns)
    source = source_of(plain, context, border, products=products)
    for down in rows:
        for across in columns:
            _call(_phase(plain, op, context, source, (down, across)), source, context)


def _phase(
    plain: Op, op: Op, context: Context, source: Source, phases: tuple[Phase, Phase]
) -> Part:
    (down, across), window = phases, transposed_window_of(op)
    image, out, weights = source.layout, context.layout(op.outputs[0]), operand(op, _WEIGHTS)
    strides, start = (image.row_stride, image.pixel_stride), 0
    if down.taps and across.taps:
        kept = np.asarray(weights.data)[:, list(down.taps)][:, :, list(across.taps)]
        start = down.first * image.row_stride + across.first * image.pixel_stride
    else:  # nothing but the bias reaches these pixels
        zero = scalar_quant(weights)[1]
        kept = np.full((weights.static_shape[0], 1, 1, image.channels), zero, weights.dtype.numpy)
        strides = 0, 0
    first = down.start * out.row_stride + across.start * out.pixel_stride
    row, pixel = window.rows.stride * out.row_stride, window.columns.stride * out.pixel_stride
    return Part(
        replace(plain, inputs=[plain.inputs[0], held(weights, kept), plain.inputs[2]]),
        f" {','.join(map(str, down.taps))}/{','.join(map(str, across.taps))}",
        source.view(start, *strides),
        View(op.outputs[0], first, out.batch_stride, row, pixel),
        (out.batch, down.count, across.count),
        (image.row_stride, image.pixel_stride),
    )


def held(weights: Tensor, data: np.ndarray) -> Tensor:
    """Constant weights with other elements."""
    kept = np.ascontiguousarray(data)
    kept.flags.writeable = False
    return replace(weights, shape=kept.shape, default_shape=None, data=kept)


LOWERINGS.add(
    Lowering(
        "TRANSPOSE_CONV",
        "transpose_conv_q8",
        _refuses_transposed,
        _lower_transposed,
        _transposed_border,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.SPLIT,
    )
)
