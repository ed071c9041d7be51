"""The constants that `conv_q8.h` reads: packed weights, and what goes with them."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.integers.computed_q8 import call_pack
from circlet.backends.cpu.lower.integers.epilogue import Q8Product
from circlet.backends.cpu.lower.integers.flips import grouped_bytes
from circlet.backends.cpu.lower.integers.gathered import gathers
from circlet.backends.cpu.lower.integers.groups_q8 import whole_blocks
from circlet.backends.cpu.lower.integers.i8mm import group_of
from circlet.backends.cpu.lower.integers.pairs_forms import PairedForm, is_paired
from circlet.backends.cpu.lower.integers.q8 import Int8
from circlet.backends.cpu.lower.integers.requantisation import HYBRIDS, interleaved_lanes
from circlet.backends.cpu.lower.products.product import Im2colRow
from circlet.backends.cpu.lower.products.tiles import Tile
from circlet.backends.cpu.lowering import ConstantRef, Context, TensorRef

_SUM_BYTES = 16
_NO_SUMS = "CONV_Q8_NO_SUMS"
_SUMS_IN = "CONV_Q8_SUMS_IN"
_SUMS_SPLAT = "CONV_Q8_SUMS_SPLAT"
_UNKNOWN = np.empty(0, np.int8)

Bytes = TypeVar("Bytes", np.int8, np.int16)


class Fact(NamedTuple):
    """What a kernel has to know of packed constants.

    Attributes:
        form: Of requantisation.
        products: How they are made (`pairs_q8.py`), or "".
    """

    form: str
    products: str = ""


def pack(
    weights: npt.NDArray[Bytes], order: npt.NDArray[np.intp], group: int = 4
) -> npt.NDArray[Bytes]:
    """[channels, down, across, bytes] to [blocks, groups of bytes, columns, bytes of a group].

        step 0:  c0: t0 t1 t2 t3 | c1: t0 t1 t2 t3 | ...    step 1:  c0: t4 t5 t6 t7 | ...

    One vector load thus brings what a four-way dot product (VPDPBUSD, SDOT) takes: four taps of
    each lane's channel. Column c of a block holds its channel order[c]. The bytes of a run's last
    group stand at its end, unless the run is shorter than the group.
    """
    columns = order.size
    channels, down, across, length = weights.shape
    whole, groups = length // group * group, -(-length // group)
    shape = -(-channels // columns) * columns, down, across, groups * group
    runs = np.zeros(shape, weights.dtype)
    runs[:channels, ..., :whole] = weights[..., :whole]
    if length < group:
        runs[:channels, ..., :length] = weights
    elif whole < length:
        runs[:channels, ..., whole - length :] = weights[..., whole:]
    blocks = runs.reshape(-1, columns, down * across * groups, group)
    return np.ascontiguousarray(blocks[:, order].transpose(0, 2, 1, 3))


class Packing(NamedTuple):
    """A product whose constants are packed.

    Attributes:
        row: The runs of its windows.
    """

    product: Q8Product
    row: Im2colRow
    context: Context

    @property
    def lanes(self) -> int:
        """Of a register."""
        return self.context.vector_bytes // 4

    @property
    def group(self) -> int:
        """Bytes of a channel that stand together."""
        return group_of(grouped_bytes(self.product, self.row), self.context.target)

    def sums(self, tile: Tile) -> str:
        """How the kernel finds sums of windows: in the last lane, where that has no channel."""
        product, target = self.product, self.context.target
        if product.epilogue.weight_zero == 0 or is_paired(product, target):
            return _NO_SUMS
        if product.group_filters < tile.channels(self.lanes) and product.computed is None:
            return _SUMS_IN
        return "CONV_Q8_SUMS_ALONG" if self.row.length >= _SUM_BYTES else _SUMS_SPLAT

    def name(self, tile: Tile) -> str:
        """That of constant ones; an excess of gathered windows takes other forms."""
        shape = f"{tile.whole} {self.row.rows} {self.row.columns} {self.row.length}"
        gathered = " gathered" if gathers(self.product, self.context.target) else ""
        return f"conv_q8{self.product.part} {shape} {self.group}{gathered}"

    def computed_fact(self, tile: Tile) -> Fact:
        """The fact of constants that a call packs."""
        return Fact(self.product.epilogue.requantise(_UNKNOWN, tile.channels(self.lanes)).form)

    def packed(self, tile: Tile) -> tuple[tuple[ConstantRef | TensorRef, ...], Fact]:
        """Weights, requantisation parameters, perhaps weights of one or an excess.

        Weights that are computed are packed by a call, which is appended.
        """
        product, row, context = self.product, self.row, self.context
        if product.computed is None:
            packed = context.packed(product.op, self.name(tile), lambda: self._constants(tile))
            return packed.refs, Fact(*packed.fact)
        scaling = product.epilogue.requantise(_UNKNOWN, tile.channels(self.lanes))
        refs = call_pack(product, row, scaling.parameters, tile.whole, context)
        ones: tuple[ConstantRef, ...] = ()
        if self.sums(tile) == _SUMS_SPLAT:
            name = f"ones {row.runs} {row.length}"
            ones = context.packed(product.op, name, lambda: ([self._ones()], None)).refs
        return (*refs, *ones), Fact(scaling.form)

    def _constants(self, tile: Tile) -> tuple[list[np.ndarray], Fact]:
        product, row, width = self.product, self.row, tile.channels(self.lanes)
        weights, zero = product.weights(), np.int16(product.epilogue.weight_zero)
        scaling = product.epilogue.requantise(weights, width)
        order = self._order(tile, scaling.form)
        windows = weights.reshape(-1, row.rows, row.columns, row.length)
        if is_paired(product, self.context.target):
            centred: npt.NDArray[np.int16] = windows.astype(np.int16) - zero
            exact = whole_blocks(centred, product.groups, width)
            paired = PairedForm(product, row, self.lanes, self.context.target)
            how, (kept, *excess) = paired.least_time(lambda group: pack(exact, order, group))
            return [kept, scaling.parameters, *excess], Fact(scaling.form, how)
        blocks, sums = whole_blocks(windows, product.groups, width), self.sums(tile)
        if sums == _SUMS_IN:
            blocks[width - 1 :: width] = 1
        arrays: list[np.ndarray] = [pack(blocks, order, self.group), scaling.parameters]
        if sums == _SUMS_SPLAT:
            arrays.append(self._ones())
        return arrays, Fact(scaling.form)

    def _order(self, tile: Tile, form: str) -> npt.NDArray[np.intp]:
        """The channel of each column of a block: floats are stored register by register."""
        if form in HYBRIDS:
            return np.arange(tile.channels(self.lanes))
        return interleaved_lanes(tile.whole, self.lanes)

    def _ones(self) -> Int8:
        """Packed weights of one, of as many channels as a register has lanes."""
        row, lanes = self.row, self.lanes
        windows = np.ones((lanes, row.rows, row.columns, row.length), np.int8)
        return pack(windows, np.arange(lanes), self.group)
