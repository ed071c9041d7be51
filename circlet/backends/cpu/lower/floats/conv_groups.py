"""Convolutions in groups of fewer channels than a register has lanes, by `conv_groups_f32.h`."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.floats.epilogue import FloatArray, FloatProduct, edges
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES, registers_of
from circlet.backends.cpu.lowering import Context, Kernel, ParamValue

_DEPTHS = (2, 4, 8)
_MOST_COLUMNS = 5
_MOST_STRIDE = 2
_MOST_PIXELS = 8
_TOGETHER = 4
_APART = 1.1  # the time of a multiply-add of a group by itself
_LEAST_BYTES = 32  # of a register: shuffles of narrower ones gain nothing


def takes_groups(product: FloatProduct, context: Context) -> bool:
    """Whether `call_conv_groups` computes a product, and in less time than group by group.

    Groups by themselves fill a register each, or half of one.
    """
    filters, _, columns, depth = product.shape
    vector_bytes = context.vector_bytes
    lanes = vector_bytes // FLOAT_BYTES
    halves = registers_of(context.target, vector_bytes).has_halves
    apart = product.groups * (0.5 if halves else 1) * _APART
    stride, rest = divmod(product.source.pixel, product.taps[1])
    return (
        vector_bytes >= _LEAST_BYTES
        and product.computed is None
        and depth in _DEPTHS
        and depth < lanes <= filters
        and -(-filters // lanes) <= apart
        and filters == product.groups * depth
        and columns <= _MOST_COLUMNS
        and rest == 0
        and 1 <= stride <= _MOST_STRIDE
    )


def call_conv_groups(product: FloatProduct, context: Context) -> None:
    """Append the kernel call that computes `product`."""
    lanes, epilogue = context.vector_bytes // FLOAT_BYTES, product.epilogue
    filters, rows, columns, depth = product.shape
    images, height, width = product.sizes
    params: dict[str, ParamValue] = {
        **edges(product),
        "tap_row": product.taps[0],
        "tap_column": product.taps[1],
        "image_rows": height,
        "row_pixels": width,
        "tap_rows": rows,
        "channels": filters,
    }
    bias, weights = context.packed(
        product.op,
        f"conv_groups_f32 {product.part}",
        lambda: ([epilogue.padded_bias(filters, 1), _packed(product.weights(), lanes)], None),
    ).refs
    stride = product.source.pixel // product.taps[1]
    arguments = _pixels(width), depth, columns, stride, epilogue.adds
    context.call(
        product.op,
        Kernel("conv_groups_f32.h", "conv_groups_f32", arguments),
        params,
        (product.source.ref, bias, weights, product.result.ref, epilogue.addend_ref),
        [product.result.tensor],
        tasks=images * height,
    )


def _pixels(width: int) -> int:
    """Pixels of a tile: as few as possible are computed twice, of as few tiles as possible."""
    return min(
        range(1, min(_MOST_PIXELS, width) + 1),
        key=lambda pixels: -(-width // pixels) * (pixels + 1),
    )


def _packed(weights: FloatArray, lanes: int) -> FloatArray:
    """Weights per register of channels, in the order in which lanes meet those of their group."""
    filters, rows, columns, depth = weights.shape
    places = np.arange(filters)[:, None] % depth ^ np.arange(depth)
    met = np.take_along_axis(weights, places[:, None, None, :], axis=3)
    firsts = np.minimum(np.arange(0, filters, lanes), filters - lanes)
    blocks = met[firsts[:, None] + np.arange(lanes)]
    together = min(depth, _TOGETHER)
    parts = blocks.reshape(len(firsts), lanes, rows, columns, depth // together, together)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 3, 5, 1), np.float32)
