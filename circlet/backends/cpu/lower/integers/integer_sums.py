"""MatMulInteger and NhwcConvInteger: sums of bytes less a zero point that a run computes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.layout import Border, Layout, bordered, nhwc
from circlet.backends.cpu.lower.integers.conv_q8 import Q8Epilogue, Q8Product, call_conv_q8
from circlet.backends.cpu.lower.integers.i8mm import product_offset
from circlet.backends.cpu.lower.integers.q8 import Int8
from circlet.backends.cpu.lower.integers.requantisation import SUMS, Requantisation, in_order
from circlet.backends.cpu.lower.products.product import View, of_rows
from circlet.backends.cpu.lower.products.windows import conv_sizes, tap_strides, window_strides
from circlet.backends.cpu.lower.views import image_strides
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.onnx.integer_sums import (
    CONV,
    MATMUL,
    has_one_zero,
    has_signed_weights,
    image_window_of,
    signed_weights,
)
from circlet.ops.operands import operand
from circlet.target.targets import Target

_RECORD_BYTES = 8


class _Stored(NamedTuple):
    """Images as the products take them.

    Attributes:
        pixels: Their pixels, from the first of the border on.
        layout: Where these lie.
        scales: The record of the zero point of each image.
    """

    pixels: View
    layout: Layout
    scales: TensorRef


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).is_constant or operand(op, 0).dtype.bits != 8:
        return "what meets the weights is not computed bytes"
    if not has_signed_weights(op.label, operand(op, 1), op.input(3)):
        return "the weights are no constant bytes with one zero point"
    if not has_one_zero(op.input(2)):
        return "rows have zero points of their own"
    return "a size is 0" if 0 in (operand(op, 0).elements, op.outputs[0].elements) else None


def _refuses_conv(op: Op, target: Target) -> str | None:
    if operand(op, 0).static_shape[3] != operand(op, 1).static_shape[1]:
        return "does not take groups of channels"
    return _refuses(op, target)


def _lower_matmul(op: Op, context: Context) -> None:
    (weights, weight_zero), data = signed_weights(op), operand(op, 0)
    depth, units = weights.shape
    stored = _stored(op, context, Border())
    epilogue = _epilogue(units, weight_zero, stored, context)
    product: Q8Product = of_rows(
        op,
        data,
        op.outputs[0],
        (units, depth),
        lambda: np.ascontiguousarray(weights.T),
        epilogue,
    )
    source = stored.pixels._replace(batch=0, row=0, pixel=depth)
    call_conv_q8(product._replace(source=source), context)


def _lower_conv(op: Op, context: Context) -> None:
    (weights, weight_zero), window = signed_weights(op), image_window_of(op)
    out = context.layout(op.outputs[0])
    _, height, width, _ = nhwc(operand(op, 0).static_shape)
    (top, bottom), (left, right) = window.pads(height, width)
    stored = _stored(op, context, Border(top, left, bottom, right))
    batch, row, pixel = window_strides(window, stored.layout)
    units, depth, *taps = weights.shape
    product: Q8Product = Q8Product(
        op,
        stored.pixels._replace(batch=batch, row=row, pixel=pixel),
        View.whole(op.outputs[0], out),
        conv_sizes(window, stored.layout, out),
        (units, taps[0], taps[1], depth),
        tap_strides(window, stored.layout),
        lambda: np.ascontiguousarray(weights.transpose(0, 2, 3, 1)),
        _epilogue(units, weight_zero, stored, context),
    )
    call_conv_q8(product, context)


def _epilogue(units: int, weight_zero: int, stored: _Stored, context: Context) -> Q8Epilogue:
    lanes = context.vector_bytes // 4

    def parameters(values: Int8, width: int) -> Requantisation:
        flat = values.reshape(units, -1)
        sums = flat.sum(axis=1, dtype=np.int32) - weight_zero * flat.shape[1]
        return Requantisation(SUMS, in_order(units, width, lanes).table({2: sums}))

    bounds: dict[str, ParamValue] = {"float_low": 0.0, "float_high": 0.0}
    return Q8Epilogue(parameters, weight_zero, False, bounds, stored.scales)


def _stored(op: Op, context: Context, border: Border) -> _Stored:
    """The images where they lie, or copies with a border and the sign that products take."""
    data, zero = operand(op, 0), op.input(2)
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
        **{f"image_{side}": size for side, size in border._asdict().items()},
        "rows": rows,
        "flip": offset,
    }
    scales = context.temporary(op, image.batch * _RECORD_BYTES)
    made = context.temporary(op, image.buffer_elements) if copies else None
    zero_ref: Ref = (
        NoRef() if zero is None else context.stored(zero) if zero.is_constant else TensorRef(zero)
    )
    operands: tuple[Ref, ...] = (TensorRef(data), zero_ref, made or NoRef(), scales)
    written = (scales.tensor, *((made.tensor,) if made else ()))
    forms = data.dtype is DType.INT8, copies, offset != 0
    kernel = Kernel("stored_image.h", "stored_image", tuple(map(int, forms)))
    context.call(op, kernel, params, operands, written, tasks=image.batch * rows)
    place = TensorRef(data) if made is None else made
    return _Stored(View(place.tensor, place.offset, 0, 0, 0), image, scales)


LOWERINGS.add(Lowering(MATMUL, "mat_mul_integer", _refuses, _lower_matmul, rank=Rank.INT8))
LOWERINGS.add(
    Lowering(
        CONV,
        "conv_integer",
        _refuses_conv,
        _lower_conv,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.INT8,
    )
)
