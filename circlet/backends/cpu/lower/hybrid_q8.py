"""Ops with float activations and int8 weights: images are quantised as they are read.

Each thread quantises the image that it works on into its scratch memory, border included, and the
8-bit kernels run from there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.backends.cpu.layout import Border, Layout, bordered
from circlet.backends.cpu.lower.conv_q8 import (
    Places,
    Product,
    Runs,
    call_product,
    conv_border,
    places_of,
    refuses_conv,
    runs_of,
    slots_of,
)
from circlet.backends.cpu.lower.depthwise_q8 import (
    Depthwise,
    call_depthwise,
    expand,
    is_expanded,
    refuses_depthwise,
    weight_sums,
)
from circlet.backends.cpu.lower.depthwise_tiles import narrow_tiling
from circlet.backends.cpu.lower.q8 import (
    Int8,
    choose_tile,
    float_bounds,
    hybrid_scaling,
    refuses_weighted,
)
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, ParamValue, TensorRef
from circlet.backends.cpu.targets import Target
from circlet.ir import DType, Op
from circlet.ops.conv import window_of
from circlet.ops.operands import operand
from circlet.ops.weighted import hybrid_is_asymmetric

_SLACK_BYTES = 64


def _is_hybrid(op: Op) -> bool:
    return operand(op, 0).dtype is DType.FLOAT32 and operand(op, 1).dtype is DType.INT8


def _refuses_conv(op: Op, target: Target) -> str | None:
    return refuses_conv(op, target) if _is_hybrid(op) else "is not hybrid"


def _refuses_depthwise(op: Op, target: Target) -> str | None:
    return refuses_depthwise(op, target) if _is_hybrid(op) else "is not hybrid"


def _refuses_rows(op: Op, target: Target) -> str | None:
    return refuses_weighted(op, target) if _is_hybrid(op) else "is not hybrid"


def _lower_conv(op: Op, context: Context) -> None:
    _lower_as_conv(op, context, np.asarray(operand(op, 1).data))


def _lower_as_conv(op: Op, context: Context, weights: Int8) -> None:
    scratch = _scratch_layout(op)
    runs, places = runs_of(op, scratch), places_of(op, scratch, context.layout(op.outputs[0]))
    shaped = weights.reshape(len(weights), runs.down, runs.across, runs.bytes)
    extra = _image_params(op, context) | {"asymmetric": hybrid_is_asymmetric(op)}
    _call(op, context, shaped, (runs, places), extra, scratch.buffer_elements)


def _lower_rows(op: Op, context: Context) -> None:
    """Each row is an image of one pixel, with a scale of its own."""
    weights = np.asarray(operand(op, 1).data)
    units, depth = weights.shape
    rows = operand(op, 0).elements // depth
    places = Places(rows, 1, 1, (0, 0, depth), (units, 0, units))
    extra: dict[str, ParamValue] = {
        "image_batch": depth,
        "image_row": depth,
        "image_pixel": depth,
        "image_height": 1,
        "image_width": 1,
        "image_depth": depth,
        "asymmetric": hybrid_is_asymmetric(op),
    }
    shaped = weights.reshape(units, 1, 1, depth)
    _call(op, context, shaped, (Runs(1, 1, depth, 0, 0), places), extra, depth)


def _call(
    op: Op,
    context: Context,
    weights: Int8,
    geometry: tuple[Runs, Places],
    extra: dict[str, ParamValue],
    image_bytes: int,
) -> None:
    runs, places = geometry
    lanes, channels = context.vector_bytes // 4, len(weights)
    tile = choose_tile(places.row_pixels, channels, context.target, lanes)
    sums = weights.reshape(channels, -1).astype(np.int64).sum(axis=1)
    scaling = hybrid_scaling(op, sums, slots_of(channels, tile, lanes))
    source, params = TensorRef(operand(op, 0)), extra | float_bounds(op)
    scratch = image_bytes + _SLACK_BYTES
    product = Product(op, runs, places, weights, 0, False, source, params, scratch)
    call_product(product, scaling, tile, context)


def _lower_depthwise(op: Op, context: Context) -> None:
    weights: Int8 = np.asarray(operand(op, 1).data)
    if is_expanded(op):
        _lower_as_conv(op, context, expand(weights, 0, operand(op, 0).static_shape[3]))
        return
    channels, lanes = weights.shape[3], context.vector_bytes // 4
    scratch = _scratch_layout(op)
    width = context.layout(op.outputs[0]).width
    tiling = narrow_tiling(window_of(op), width, channels, context)
    scaling = hybrid_scaling(op, weight_sums((weights[0],)), tiling.blocks.slots(lanes))
    extra = _image_params(op, context) | {"asymmetric": hybrid_is_asymmetric(op)}
    strides = 0, scratch.row_stride, scratch.pixel_stride
    size = scratch.buffer_elements + _SLACK_BYTES
    params = extra | float_bounds(op)
    source = TensorRef(operand(op, 0))
    call = Depthwise(op, (weights[0],), tiling, strides, False, source, params, size)
    call_depthwise(call, scaling, context)


def _scratch_layout(op: Op) -> Layout:
    """One image with its border; images of a batch do not flow together, each has a scale."""
    data = operand(op, 0)
    layout = bordered(data, conv_border(op).get(0, Border()))
    size = layout.buffer_elements // max(layout.batch, 1)
    return replace(layout, batch_stride=0, offset=0, buffer_elements=size)


def _image_params(op: Op, context: Context) -> dict[str, ParamValue]:
    data, border = context.layout(operand(op, 0)), conv_border(op).get(0, Border())
    return {
        "image_batch": data.batch_stride,
        "image_row": data.row_stride,
        "image_pixel": data.pixel_stride,
        "image_height": data.height,
        "image_width": data.width,
        "image_depth": data.channels,
        "border_top": border.top,
        "border_left": border.left,
        "border_bottom": border.bottom,
        "border_right": border.right,
    }


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
        )
    )
LOWERINGS.add(Lowering("FULLY_CONNECTED", "fully_connected_hybrid", _refuses_rows, _lower_rows))
