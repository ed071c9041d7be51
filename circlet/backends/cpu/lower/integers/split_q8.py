"""8-bit and hybrid layers that are several products: transposed convolutions, and groups.

A transposed convolution is a convolution for each phase of its strides (see `phases.py`);
groups of channels are convolutions side by side. Each part is lowered as an op of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.layout import Border, Layout
from circlet.backends.cpu.lower.integers.affine_q8 import integer_requantisation
from circlet.backends.cpu.lower.integers.conv_q8 import (
    Q8Epilogue,
    call_conv_q8,
)
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
from circlet.backends.cpu.lower.products.windows import conv_border, tap_strides, window_strides
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, NoRef, Rank, Ref, TensorRef
from circlet.ir import DType, Op, Tensor
from circlet.ops.conv import window_of
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
        replace(plain, inputs=[plain.inputs[0], _kept(weights, kept), plain.inputs[2]]),
        f" {','.join(map(str, down.taps))}/{','.join(map(str, across.taps))}",
        source.view(start, *strides),
        View(op.outputs[0], first, out.batch_stride, row, pixel),
        (out.batch, down.count, across.count),
        (image.row_stride, image.pixel_stride),
    )


def _kept(weights: Tensor, data: np.ndarray) -> Tensor:
    held = np.ascontiguousarray(data)
    held.flags.writeable = False
    return replace(weights, shape=held.shape, default_shape=None, data=held)


def group_count(op: Op) -> int:
    """Groups of channels of a CONV_2D."""
    return operand(op, 0).static_shape[3] // operand(op, 1).static_shape[3]


def _refuses_groups(op: Op, target: Target) -> str | None:
    if group_count(op) == 1:
        return "has no groups of channels"
    return refuses_weighted(op, target)


def _group_border(op: Op) -> dict[int, Border]:
    return {} if operand(op, 0).dtype is DType.FLOAT32 else conv_border(op)


def groups_together(groups: int, filters: int, lanes: int) -> int:
    """Groups of one product: the least work, zeros included; then the fewest products.

    Args:
        filters: Of a group.
    """

    def work(count: int) -> tuple[int, int]:
        return groups // count * -(-count * filters // lanes) * count, -count

    return min((n for n in range(1, groups + 1) if groups % n == 0), key=work)


def _lower_groups(op: Op, context: Context) -> None:
    border = conv_border(op).get(0, Border())
    groups, weights = group_count(op), operand(op, 1)
    filters = weights.static_shape[0] // groups
    count = groups_together(groups, filters, context.vector_bytes // 4)
    source = source_of(op, context, border, products=groups // count)
    for first in range(0, groups, count):
        _call(group_part(op, context, source, (first, first + count), groups), source, context)


def group_part(
    op: Op, context: Context, source: Source, members: tuple[int, int], groups: int
) -> Part:
    """The groups from the first of `members` to the last as one product, zeros between them."""
    (first, end), window = members, window_of(op)
    image, out = source.layout, context.layout(op.outputs[0])
    weights, bias = operand(op, 1), op.input(2)
    filters, depth = weights.static_shape[0] // groups, weights.static_shape[3]
    kept = slice(first * filters, end * filters)
    dense = _sliced(weights, _block_diagonal(op, kept, filters), kept)
    offsets = None if bias is None else _sliced(bias, np.asarray(bias.data).reshape(-1)[kept], kept)
    border = conv_border(op).get(0, Border())
    start = first * depth - border.top * image.row_stride - border.left * image.pixel_stride
    return Part(
        replace(op, inputs=[op.inputs[0], dense, offsets]),
        f" groups {first}",
        source.view(start, *window_strides(window, image)[1:]),
        View.whole(op.outputs[0], out).moved(first * filters),
        (out.batch, out.height, out.width),
        tap_strides(window, image),
    )


def _block_diagonal(op: Op, kept: slice, filters: int) -> np.ndarray:
    """Weights of some groups over the channels of all of them: what is not theirs counts as 0."""
    weights = operand(op, 1)
    own = np.asarray(weights.data)[kept]
    zero = 0 if operand(op, 0).dtype is DType.FLOAT32 else scalar_quant(weights)[1]
    depth = own.shape[3]
    wide = (*own.shape[:3], len(own) // filters * depth)
    dense = np.full(wide, zero, own.dtype)
    for member in range(len(own) // filters):
        rows = slice(member * filters, (member + 1) * filters)
        dense[rows, ..., member * depth : (member + 1) * depth] = own[rows]
    return dense


def _sliced(tensor: Tensor, data: np.ndarray, kept: slice) -> Tensor:
    """Some of a tensor's channels, with their scales."""
    quant = tensor.quant
    if quant is not None and quant.is_per_channel:
        quant = replace(quant, scale=quant.scale[kept], zero_point=quant.zero_point[kept])
    return replace(_kept(tensor, data), quant=quant)


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
LOWERINGS.add(
    Lowering(
        "CONV_2D",
        "conv_2d_groups_q8",
        _refuses_groups,
        _lower_groups,
        _group_border,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.SPLIT,
    )
)
