"""What a pass promises of results, of what a network costs, and of files that are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from circlet.passes.totals import Totals

BOUND = ("operators", "macs", "bytes_moved")  # the fields of `Totals` that no pass makes larger
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class Contract:
    """What a pass promises; one that declares nothing promises most.

    Attributes:
        tolerance: How far results of a network may be from those before, as `difference` measures
            it; 0 where they are equal.
        why: What makes results differ, where they may.
        native_only: Why files are no better for the pass, so that levels leave it out where a file
            is written; "" where they are.
        packs: Whether constants are left in forms that files hold and records do not know, so that
            operators over them are neither verified nor evaluated.
        interface: Whether callers give and get other values, such as images in another order of
            axes, or may give fewer. Graphs that operators run are then left as they are, as the
            operators go on to give and take what they did.
        grows: Those of `BOUND` that the pass may make larger, and why.
    """

    tolerance: float = 0.0
    why: str = ""
    native_only: str = ""
    packs: bool = False
    interface: bool = False
    grows: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    @property
    def is_exact(self) -> bool:
        """Whether results stay equal, number by number."""
        return self.tolerance == 0

    def growth(self, before: Totals, after: Totals) -> str:
        """What grew although the pass does not say so, in words; "" where nothing did."""
        names = [name for name in BOUND if name not in self.grows]
        pairs = ((name, getattr(before, name), getattr(after, name)) for name in names)
        return ", ".join(
            f"{name.replace('_', ' ')} grew from {old:,} to {new:,}"
            for name, old, new in pairs
            if new > old
        )


DEFAULT_CONTRACT = Contract()
LAST_DIGITS = Contract(tolerance=1e-4, why="floats are rounded in other places")


def contract_of(item: object) -> Contract:
    """What a pass, or a class of passes, declares as `contract`.

    `is_exact = False` alone is short for `LAST_DIGITS`.
    """
    short = DEFAULT_CONTRACT if getattr(item, "is_exact", True) else LAST_DIGITS
    declared = getattr(item, "contract", short)
    assert isinstance(declared, Contract)
    return declared


def difference(results: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest of max|result - wanted| / max(1, max|wanted|) over all outputs.

    Stored integers count as the numbers that they are. Infinite where types, sizes, strings, or
    the places of not-a-number and infinities differ.
    """
    if len(results) != len(wanted):
        return float("inf")
    return max(map(_difference, results, wanted), default=0.0)


def _difference(result: np.ndarray, wanted: np.ndarray) -> float:
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        return float("inf")
    if wanted.dtype == object or not wanted.size:
        return 0.0 if np.array_equal(result, wanted) else float("inf")
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    got, want = result.astype(wide), wanted.astype(wide)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return float("inf")
    if not np.isfinite(got[finite]).all():
        return float("inf")
    apart = float(np.abs(got[finite] - want[finite]).max(initial=0.0))
    if not apart and result.dtype.kind in "iu" and not np.array_equal(result, wanted):
        apart = 1.0  # of integers that double precision does not tell apart
    return apart / max(1.0, float(np.abs(want[finite]).max(initial=0.0)))
