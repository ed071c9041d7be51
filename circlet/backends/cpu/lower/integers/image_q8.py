"""Products of windows of images of few channels, by lanes of pixels (`conv_q8_image.h`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlet.backends.cpu.lower.integers.q8 import Int8, has_dot
from circlet.backends.cpu.lower.integers.requantisation import ChannelOrder, Requantisation
from circlet.backends.cpu.lower.products.product import Im2colRow, Product
from circlet.backends.cpu.lowering import Context, Kernel, ParamValue

_MOST_APART = 8  # bytes; sixteen windows lie within two registers
_MOST_WORDS = 64
_MOST_CHANNELS = 16
_WORD, _LANES = 4, 16
_MAKE_WORD, _REQUANTISE_PIXELS = 4.0, 6.0  # cycles, of a register each
_SPLAT, _REQUANTISE_CHANNELS = 0.5, 5.0

Requantise = Callable[[Int8, ChannelOrder], Requantisation]


def is_image(product: Product[Any], context: Context) -> bool:
    """Whether the kernel takes a product, and in less time than that of registers of channels.

    Another size of the network keeps the kernel that the first one has.
    """
    if not (has_dot(context.target) and context.target.has("avx512vbmi")):
        return False
    row = product.im2col
    if context.reuses:
        return context.reused(product.op, _packing(row)) is not None
    return (
        context.vector_bytes == 64
        and product.computed is None
        and product.groups == 1
        and row.columns == 1 < row.rows
        and product.source.pixel <= _MOST_APART
        and row.rows * -(-row.length // _WORD) <= _MOST_WORDS
        and _cycles(product, _LANES) < _cycles_of_channels(product, _LANES)
    )


def _cycles(product: Product[Any], lanes: int) -> float:
    """Estimated cycles of a row of outputs: words are made once, and meet every channel."""
    row, block = product.im2col, channels_of_block(product.filters)
    tail, slots = row.length % _WORD, -(-product.filters // block) * block
    words = row.rows * (row.length // _WORD) + -(-row.rows // max(_WORD // tail, 1) if tail else 0)
    return -(-product.width // lanes) * (words * (slots + _MAKE_WORD) + slots * _REQUANTISE_PIXELS)


def _cycles_of_channels(product: Product[Any], lanes: int) -> float:
    """The same of `conv_q8.h`, which splats words of rows of taps."""
    row, vectors = product.im2col, -(-product.filters // lanes)
    words = row.rows * -(-row.length // _WORD)
    return product.width * (words * (vectors + _SPLAT) + vectors * _REQUANTISE_CHANNELS)


def _packing(row: Im2colRow) -> str:
    """A name for the packed constants."""
    return f"conv_q8_image {row.rows} {row.length}"


def call_image(product: Product[Any], requantise: Requantise, context: Context) -> None:
    """Append the call of the kernel."""
    op, row, lanes = product.op, product.im2col, context.vector_bytes // 4
    block = channels_of_block(product.filters)
    slots = -(-product.filters // block) * block
    order = ChannelOrder(np.repeat(np.arange(slots), lanes), slots * lanes, lanes)

    def pack() -> tuple[list[np.ndarray], str]:
        weights = product.weights()
        scaling = requantise(weights, order)
        return [pack_words(weights, row, block), scaling.parameters], scaling.form

    packed = context.packed(op, _packing(row), pack)
    flip, sums = int(product.epilogue.flip), int(product.epilogue.weight_zero != 0)
    arguments = (product.source.pixel, row.rows, row.length, block, packed.fact, flip, sums)
    row_tiles = -(-product.width // lanes)
    params: dict[str, ParamValue] = {
        **product.source.strides("in"),
        **product.result.strides("out"),
        "run_down": row.row_step,
        "image_rows": product.sizes[1],
        "row_pixels": product.width,
        "row_tiles": row_tiles,
        "channels": product.filters,
        "weight_zero": product.epilogue.weight_zero,
        **product.epilogue.bounds,
    }
    context.call(
        op,
        Kernel("conv_q8_image.h", "conv_q8_image", arguments),
        params,
        (product.source.ref, *packed.refs, product.result.ref),
        (product.result.tensor,),
        tasks=product.rows * row_tiles,
    )


def channels_of_block(filters: int) -> int:
    """Channels of blocks as equal as can be, in fours."""
    blocks = -(-filters // _MOST_CHANNELS)
    return -(-filters // (blocks * _WORD)) * _WORD


def pack_words(weights: Int8, row: Im2colRow, block: int) -> Int8:
    """[filters, taps] to [blocks, words, channels of a block, 4], in the order of the kernel."""
    filters, tail = len(weights), row.length % _WORD
    taps = np.zeros((-(-filters // block) * block, row.rows, row.length), np.int8)
    taps[:filters] = weights.reshape(filters, row.rows, row.length)
    words, shared = [], []
    sharing = _WORD // tail if tail else 1
    for y in range(row.rows):
        whole = taps[:, y, : row.length - tail]
        words += [whole[:, k : k + _WORD] for k in range(0, whole.shape[1], _WORD)]
        if not tail:
            continue
        shared.append(taps[:, y, row.length - tail :])
        if len(shared) == sharing or y == row.rows - 1:
            joined = np.concatenate(shared, axis=1)
            words.append(np.pad(joined, ((0, 0), (0, _WORD - joined.shape[1]))))
            shared = []
    stacked = np.stack(words, axis=1).reshape(-1, block, len(words), _WORD)
    return np.ascontiguousarray(stacked.transpose(0, 2, 1, 3))
