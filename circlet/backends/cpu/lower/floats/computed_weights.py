"""Float weights that are computed at run time, packed as constant ones are at compile time.

A call of `pack_conv_f32.h` ahead of the product writes the panels of `conv_f32.h` into memory of
the arena; the product then is the same kernel in the same order, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.backends.cpu.lower.floats.epilogue import FloatArray
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES
from circlet.backends.cpu.lower.products.product import ComputedWeights, Shape
from circlet.backends.cpu.lowering import Context, Kernel, ParamValue, TensorRef
from circlet.ir import Op

_TASK_ELEMENTS = 1 << 14
_PIECE = 64  # elements of a run: pieces are whole blocks of a transpose


@dataclass(frozen=True)
class Panels:
    """How filters are dealt into blocks of `width` filters each.

    Attributes:
        width: Filters of a block.
        groups: Groups of filters, none of which shares a block with another.
        last: Where the last block of a group starts at the latest; those of `conv_f32.h` start
            at multiples of their width.
    """

    width: int
    groups: int = 1
    last: int = np.iinfo(np.int64).max


def unknown(shape: tuple[int, ...]) -> FloatArray:
    """Stands for weights of which only the shape is known: every element is not a number."""
    return np.broadcast_to(np.float32(np.nan), shape)


def pack_kernel(width: int) -> Kernel:
    """The kernel that packs blocks of `width` filters."""
    return Kernel("pack_conv_f32.h", "pack_conv_f32", (width,))


def call_pack(
    op: Op, context: Context, computed: ComputedWeights, shape: Shape, panels: Panels
) -> TensorRef:
    """Append the call that packs weights of a shape, and tell where they are then."""
    filters, depth = shape[0] // panels.groups, prod(shape[1:])
    blocks, rows = -(-filters // panels.width), _runs(computed, shape)
    piece = max(_PIECE, _TASK_ELEMENTS // panels.width // _PIECE * _PIECE)
    params: dict[str, ParamValue] = {
        **rows,
        "group": computed.group,
        "filter": computed.filter,
        "element": computed.channel,
        "piece": piece,
        "blocks": blocks,
        "filters": filters,
        "last": panels.last,
    }
    count = panels.groups * blocks
    packed = context.temporary(op, count * (depth + 1) * panels.width * FLOAT_BYTES)
    context.call(
        op,
        pack_kernel(panels.width),
        params,
        (computed.weights, computed.bias, packed),
        [packed.tensor],
        tasks=count * rows["tap_rows"] * rows["tap_runs"] * max(1, -(-rows["run"] // piece)),
    )
    return packed


def _runs(computed: ComputedWeights, shape: Shape) -> dict[str, int]:
    """The window as rows of runs: rows and columns that follow each other are one run."""
    _, rows, columns, run = shape
    tap_row, tap_column = computed.taps
    if rows * columns == 0:  # a phase of a transposed convolution that meets no tap: biases alone
        rows, columns, run = 1, 1, 0
    if columns == 1 or tap_column == run * computed.channel:
        columns, run = 1, columns * run
    if columns == 1 and (rows == 1 or tap_row == run * computed.channel):
        rows, run = 1, rows * run
    return {
        "tap_rows": rows,
        "tap_runs": columns,
        "tap_row": tap_row,
        "tap_run": tap_column,
        "run": run,
    }
