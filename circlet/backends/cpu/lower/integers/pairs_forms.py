"""Which of the forms of `pairs_q8.py` the weights of a product take: that of the least time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from circlet.backends.cpu import costs
from circlet.backends.cpu.lower.integers.flips import ROW_ALIGNMENT, are_apart
from circlet.backends.cpu.lower.integers.gathered import gathers
from circlet.backends.cpu.lower.integers.pairs_q8 import (
    GROUP,
    PAIRS,
    SPARSE,
    WIDE,
    Int16,
    Windows,
    bounded,
    excess_share,
)
from circlet.backends.cpu.lower.integers.q8 import has_pairs
from circlet.backends.cpu.lower.integers.sparse_q8 import (
    chunk_pixels,
    scratch_taps,
    sparse_excess,
)
from circlet.backends.cpu.lower.products.product import Im2colRow, Product
from circlet.backends.cpu.lowering import ParamValue
from circlet.target.targets import Target


def is_paired(product: Product[Any], target: Target) -> bool:
    """Whether products are added in 16 bits (`conv_q8_pairs.h`) or of int16 (`conv_q8_wide.h`)."""
    return product.computed is None and has_pairs(target)


class PairedForm(NamedTuple):
    """A product whose form is chosen.

    Attributes:
        row: The runs of its windows.
        lanes: int32 of a register.
    """

    product: Product[Any]
    row: Im2colRow
    lanes: int
    target: Target

    def least_time(self, packed: Callable[[int], Int16]) -> tuple[str, list[np.ndarray]]:
        """The form; the weights in it and, but for `WIDE`, their excess.

        Args:
            packed: The weights by groups of so many taps.
        """
        windows = Windows(self.row.rows, self.row.columns, self.row.length, self.lanes)
        groups = packed(GROUP)
        kept, excess = bounded(groups, windows)
        steps = kept.size // (self.lanes * GROUP)
        least = PAIRS, costs.paired_steps(excess_share(kept, excess, self.lanes))
        if not are_apart(self.product, self.row) and costs.int16_steps() < least[1]:
            least = WIDE, costs.int16_steps()
        if self._may_be_sparse() and self._sparse_steps(0.0) < least[1]:
            sparse = sparse_excess(groups, windows)
            if self._sparse_steps(sparse.entries / steps) < least[1]:
                return SPARSE, [sparse.kept, sparse.table]
        return least[0], [packed(2)] if least[0] == WIDE else [kept, excess]

    def _may_be_sparse(self) -> bool:
        """Whether windows are not gathered, in one group, and a chunk holds any tile."""
        product, target = self.product, self.target
        is_plain = product.groups == 1 and not gathers(product, target)
        return is_plain and target.has("avx2") and self.row.length >= GROUP

    def _sparse_steps(self, entries: float) -> float:
        chunk, pixels = chunk_pixels(self.lanes), self.product.rows * self.product.width
        full = pixels / (-(-pixels // chunk) * chunk)
        return costs.sparse_steps(entries, self.product.filters, self.product.depth, full)


def sparse_scratch(used: int, windows: Windows, channels: int) -> tuple[dict[str, ParamValue], int]:
    """Where taps and sums of a sparse excess stand in scratch, of which so many bytes are used.

    Args:
        channels: Of the blocks of a task.
    """
    taps = -(-used // ROW_ALIGNMENT) * ROW_ALIGNMENT
    sums = taps + scratch_taps(windows) * 4
    total = sums + chunk_pixels(windows.lanes) * channels * 4
    return {"sparse_taps": taps, "sparse_sums": sums}, total
