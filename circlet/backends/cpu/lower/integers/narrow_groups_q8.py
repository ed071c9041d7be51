"""8-bit convolutions in groups of fewer channels than a register has lanes (`conv_groups_q8.h`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlet.backends.cpu.lower.integers.groups_q8 import Groups, group_count
from circlet.backends.cpu.lower.integers.q8 import Int8, has_dot
from circlet.backends.cpu.lower.integers.requantisation import ChannelOrder, Requantisation
from circlet.backends.cpu.lower.products.product import Product
from circlet.backends.cpu.lowering import Context, Kernel, ParamValue
from circlet.ir import Op
from circlet.ops.conv import window_of
from circlet.ops.operands import operand

_DEPTHS = (4, 8)
_LEAST_DEPTH = 4
_MOST_COLUMNS = 5
_MOST_STRIDE = 2
_MOST_PIXELS = {32: 8, 64: 14}  # of a tile, by bytes of a register
_DOT, _PAIR = 4, 2  # taps that one product adds

Requantise = Callable[[Int8, ChannelOrder], Requantisation]


def narrow_groups(op: Op, context: Context) -> Groups | None:
    """The groups of a CONV_2D that the kernel takes, or None.

    Groups of one or two channels are joined to some of four.
    """
    vector_bytes, target = context.vector_bytes, context.target
    needed = {32: "avx2", 64: "avx512bw"}.get(vector_bytes)
    if target.arch != "x86_64" or needed is None or not target.has(needed):
        return None
    filters, _, columns, depth = operand(op, 1).static_shape
    lanes, window = vector_bytes // 4, window_of(op).columns
    members = max(1, _LEAST_DEPTH // depth)
    total, rest = divmod(group_count(op), members)
    groups = Groups(total, members, depth)
    stride, between = divmod(window.stride, window.dilation)
    takes = (
        groups.channels in _DEPTHS
        and rest == 0
        and groups.channels < lanes <= filters
        and filters == total * groups.channels
        and columns <= _MOST_COLUMNS
        and between == 0
        and stride <= _MOST_STRIDE
    )
    return groups if takes else None


def call_narrow_groups(product: Product[Any], requantise: Requantise, context: Context) -> None:
    """Append the kernel call that computes a product in groups of `narrow_groups`."""
    op, lanes, epilogue = product.op, context.vector_bytes // 4, product.epilogue
    filters, rows, columns, depth = product.shape
    images, height, width = product.sizes
    zero = epilogue.weight_zero
    taps = _DOT if has_dot(context.target) and zero == 0 else _PAIR
    firsts = np.minimum(np.arange(0, filters, lanes), filters - lanes)
    channels = (firsts[:, None] + np.arange(lanes)).reshape(-1)

    def pack() -> tuple[list[np.ndarray], str]:
        weights = product.weights()
        scaling = requantise(weights, ChannelOrder(channels, channels.size, lanes))
        kept = weights if taps == _DOT else weights.astype(np.int16) - np.int16(zero)
        return [_packed(kept[channels], lanes, taps), scaling.parameters], scaling.form

    packed = context.packed(op, f"conv_groups_q8 {lanes}", pack)
    stride = product.source.pixel // product.taps[1]
    shape = depth, columns, stride, taps, packed.fact, int(epilogue.flip)
    params: dict[str, ParamValue] = {
        **product.source.strides("in"),
        **product.result.strides("out"),
        "tap_row": product.taps[0],
        "tap_column": product.taps[1],
        "image_rows": height,
        "row_pixels": width,
        "tap_rows": rows,
        "channels": filters,
        **epilogue.bounds,
    }
    context.call(
        op,
        _kernel(op, shape, width, context),
        params,
        (product.source.ref, *packed.refs, product.result.ref),
        (product.result.tensor,),
        tasks=images * height,
    )


def _kernel(op: Op, shape: tuple[int | str, ...], width: int, context: Context) -> Kernel:
    """The kernel of the best tile; for another size of the network, of one that is there."""
    most = _MOST_PIXELS[context.vector_bytes]

    def kernel(pixels: int) -> Kernel:
        return Kernel("conv_groups_q8.h", "conv_groups_q8", (pixels, *shape))

    tiles, half = _tiles(width, most), -(-width // 2)
    if tiles[0] > half:
        context.precompile(op, kernel(_tiles(half, most)[0]))
    kernels = [kernel(pixels) for pixels in tiles]
    return next(filter(context.has, kernels), kernels[0]) if context.reuses else kernels[0]


def _tiles(width: int, most: int) -> list[int]:
    """Pixels of a tile, the best first: few are computed twice, of few tiles."""
    counts = range(1, min(most, width) + 1)
    return sorted(counts, key=lambda pixels: -(-width // pixels) * (pixels + 1))


def _packed(weights: np.ndarray, lanes: int, taps: int) -> np.ndarray:
    """[channels of registers, rows, columns, depth] in the order of the kernel."""
    _, rows, columns, depth = weights.shape
    parts = weights.reshape(-1, lanes, rows, columns, depth // taps, taps)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 3, 1, 5))
