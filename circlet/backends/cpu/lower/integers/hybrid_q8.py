"""Ops with float activations and 8-bit weights: images are quantised by a step of their own.

It writes int8, border included, and a scale for each image; the 8-bit kernels read those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.backends.cpu.layout import Border, Layout, bordered
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES
from circlet.backends.cpu.lower.integers.conv_q8 import call_conv_q8
from circlet.backends.cpu.lower.integers.depthwise_q8 import (
    Depthwise,
    call_depthwise,
    expand,
    is_expanded,
    refuses_depthwise,
    weight_sums,
)
from circlet.backends.cpu.lower.integers.depthwise_tiles import Blocks, narrow_tilings
from circlet.backends.cpu.lower.integers.epilogue import Q8Epilogue, Q8Product
from circlet.backends.cpu.lower.integers.groups_q8 import Groups
from circlet.backends.cpu.lower.integers.q8 import (
    Int8,
    float_bounds,
    refuses_weighted,
    signed_weights,
)
from circlet.backends.cpu.lower.integers.requantisation import (
    HYBRID,
    HYBRID_ROWS,
    Requantisation,
    dequantisation,
    in_order,
)
from circlet.backends.cpu.lower.products.product import View, of_rows
from circlet.backends.cpu.lower.products.windows import conv_border, convolution, window_strides
from circlet.backends.cpu.lower.views import TASK_BYTES, image_strides
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Rank,
    Ref,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.conv import window_of
from circlet.ops.fully_connected import hybrid_is_asymmetric
from circlet.ops.operands import operand
from circlet.target.targets import Target

_SCALE_BYTES, _BOUNDS_BYTES = 8, 8


@dataclass(frozen=True)
class QuantisedImages:
    """Images as int8, `image_bytes` apart, and the scale of each."""

    data: TensorRef
    scales: TensorRef
    image_bytes: int


def _is_hybrid(op: Op) -> bool:
    stored = operand(op, 1).dtype
    signed = stored is DType.INT8 or (stored is DType.UINT8 and op.kind != "DEPTHWISE_CONV_2D")
    return operand(op, 0).dtype is DType.FLOAT32 and signed


def _refuses_conv(op: Op, target: Target) -> str | None:
    return refuses_weighted(op, target) if _is_hybrid(op) else "is not hybrid"


def _refuses_depthwise(op: Op, target: Target) -> str | None:
    return refuses_depthwise(op, target) if _is_hybrid(op) else "is not hybrid"


def _refuses_rows(op: Op, target: Target) -> str | None:
    return refuses_weighted(op, target) if _is_hybrid(op) else "is not hybrid"


def _lower_conv(op: Op, context: Context) -> None:
    groups = Groups.of(op, context.vector_bytes // 4)
    _lower_as_conv(op, context, groups.joined(signed_weights(op), 0), groups.total)


def _lower_as_conv(op: Op, context: Context, weights: Int8, groups: int = 1) -> None:
    filters, rows, columns, depth = weights.shape
    image = image_layout(op, conv_border(op).get(0, Border()))
    quantised = quantise_images(op, context, image)
    epilogue = hybrid_epilogue(op, filters, context, quantised.scales, groups=groups)
    given = (filters, rows, columns, depth), lambda: weights
    product = convolution(op, context, given, epilogue, image=image)
    _, row, pixel = window_strides(window_of(op), image)
    data = quantised.data
    source = View(data.tensor, data.offset, quantised.image_bytes, row, pixel)
    call_conv_q8(product._replace(source=source, groups=groups), context)


def _lower_rows(op: Op, context: Context) -> None:
    """Each row is an image of one pixel, with a scale of its own."""
    weights = signed_weights(op)
    units, depth = weights.shape
    rows = operand(op, 0).elements // depth
    params: dict[str, ParamValue] = {"in_batch": depth, "in_row": depth, "in_pixel": depth}
    params |= {"height": 1, "width": 1, "depth": depth, "out_batch": depth}
    quantised = _quantise(op, context, params, rows)
    epilogue = hybrid_epilogue(op, units, context, quantised.scales, HYBRID_ROWS)
    product: Q8Product = of_rows(
        op, operand(op, 0), op.outputs[0], (units, depth), lambda: weights, epilogue
    )
    source = View(quantised.data.tensor, quantised.data.offset, 0, 0, depth)
    call_conv_q8(product._replace(source=source), context)


def hybrid_epilogue(
    op: Op, channels: int, context: Context, scales: Ref, form: str = HYBRID, groups: int = 1
) -> Q8Epilogue:
    """From sums over quantised images, with their scales, to floats."""
    lanes = context.vector_bytes // 4

    def parameters(weights: Int8, width: int) -> Requantisation:
        sums = weights.reshape(channels, -1).sum(axis=1, dtype=np.int64)
        return dequantisation(op, sums, in_order(channels, width, lanes, groups), form)

    return Q8Epilogue(parameters, 0, False, float_bounds(op), scales)


def _lower_depthwise(op: Op, context: Context) -> None:
    weights = signed_weights(op)
    if is_expanded(op, context.target):
        _lower_as_conv(op, context, expand(weights, 0, operand(op, 0).static_shape[3]))
        return
    channels, lanes = weights.shape[3], context.vector_bytes // 4
    image = image_layout(op, conv_border(op).get(0, Border()))
    width = context.layout(op.outputs[0]).width
    tilings = [narrow_tilings(window_of(op), width, channels, context)]

    def parameters(parts: tuple[Int8, ...], blocks: Blocks) -> Requantisation:
        return dequantisation(op, weight_sums(parts), blocks.order(lanes))

    quantised = quantise_images(op, context, image)
    strides = quantised.image_bytes, image.row_stride, image.pixel_stride
    source, scales, bounds = quantised.data, quantised.scales, float_bounds(op)
    parts = (weights[0],)
    call = Depthwise(op, lambda: parts, parameters, tilings, strides, False, source, bounds, scales)
    call_depthwise(call, context)


def image_layout(op: Op, border: Border) -> Layout:
    """One image with its border; images of a batch do not flow together, each has a scale."""
    layout = bordered(operand(op, 0), border)
    size = layout.buffer_elements // max(layout.batch, 1)
    return layout._replace(batch_stride=0, offset=0, buffer_elements=size)


def quantise_images(op: Op, context: Context, image: Layout) -> QuantisedImages:
    """Append the step that quantises the images of an op into a layout of `image_layout`."""
    data = context.layout(operand(op, 0))
    params: dict[str, ParamValue] = {
        **image_strides("in", data),
        "out_batch": image.buffer_elements,
        "height": data.height,
        "width": data.width,
        "depth": data.channels,
        **image.border.sides,
    }
    return _quantise(op, context, params, data.batch)


def _quantise(
    op: Op, context: Context, params: dict[str, ParamValue], images: int
) -> QuantisedImages:
    """Append the steps that quantise; `params` are those of `struct hybrid_image_params`.

    Large images are cut into parts of some rows, for threads to share.
    """
    size, height = params["out_batch"], params["height"]
    assert isinstance(size, int) and isinstance(height, int)
    data = context.temporary(op, images * size)
    scales = context.temporary(op, images * _SCALE_BYTES)
    source, written = TensorRef(operand(op, 0)), (data.tensor, scales.tensor)
    image, ranges, cut = (
        Kernel("hybrid_q8.h", f"hybrid_{name}", (int(hybrid_is_asymmetric(op)),))
        for name in ("image", "ranges", "parts")
    )
    image_bytes = operand(op, 0).elements * FLOAT_BYTES // max(1, images)
    parts = max(1, min(height, image_bytes // TASK_BYTES))
    if not (context.has(cut) if context.reuses else parts > 1):
        context.call(op, image, params, (source, data, scales), written, tasks=images)
        return QuantisedImages(data, scales, size)
    tasks = images * parts
    bounds = context.temporary(op, tasks * _BOUNDS_BYTES)
    params = {**{f"image_{name}": value for name, value in params.items()}, "parts": parts}
    context.call(op, ranges, params, (source, bounds), (bounds.tensor,), tasks=tasks)
    params = {f"ranges_{name}": value for name, value in params.items()}
    context.call(op, cut, params, (source, bounds, data, scales), written, tasks=tasks)
    return QuantisedImages(data, scales, size)


for _kind, _refuses, _lower in (
    ("CONV_2D", _refuses_conv, _lower_conv),
    ("DEPTHWISE_CONV_2D", _refuses_depthwise, _lower_depthwise),
):
    LOWERINGS.add(
        Lowering(
            _kind,
            f"{_kind.lower()}_hybrid",
            _refuses,
            _lower,
            strided_inputs=True,
            strided_output=True,
            rank=Rank.HYBRID,
        )
    )
LOWERINGS.add(
    Lowering(
        "FULLY_CONNECTED", "fully_connected_hybrid", _refuses_rows, _lower_rows, rank=Rank.HYBRID
    )
)
