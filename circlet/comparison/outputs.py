"""Compares what engines computed from the same inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from circlet.words import counted

TOLERANCES = {"fp32": 1e-3, "integer": 0.25, "hybrid": 0.25}
"""Largest difference that goes unmarked, by class, in parts of an output's range.

Engines round integers differently, and some compute quantised layers in floats; what is right is
the business of the conformance tests, this finds engines that compute something else.
"""


@dataclass(frozen=True)
class Difference:
    """The largest difference between two engines' outputs.

    Attributes:
        part: In parts of the range: that of the type for small integers, of the values (at least
            1) for floats.
        steps: In steps of the integer type; None where no output is of a small integer type.
        note: Why outputs cannot be compared, or "".
    """

    part: float
    steps: int | None = None
    note: str = ""


def difference(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> Difference:
    """The largest over all outputs, matched by name, else by position."""
    if len(ours) != len(theirs):
        return Difference(np.inf, None, f"{counted(len(theirs), 'output')} instead of {len(ours)}")
    names = list(ours) if set(ours) == set(theirs) else list(theirs)
    found = [_one(a, theirs[name]) for a, name in zip(ours.values(), names, strict=True)]
    steps = [one.steps for one in found if one.steps is not None]
    notes = [one.note for one in found if one.note]
    part = max((one.part for one in found), default=0.0)
    return Difference(part, max(steps, default=None), notes[0] if notes else "")


def _one(ours: np.ndarray, theirs: np.ndarray) -> Difference:
    if ours.size != theirs.size:
        return Difference(np.inf, None, f"shape {theirs.shape} instead of {ours.shape}")
    if ours.dtype.kind not in "fiub" or theirs.dtype.kind not in "fiub" or not ours.size:
        same_values = np.array_equal(ours, theirs.reshape(ours.shape))
        return Difference(0.0) if same_values else Difference(np.inf, None, "other values")
    a, b = ours.astype(np.float64).reshape(-1), theirs.astype(np.float64).reshape(-1)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return Difference(0.0, 0 if ours.dtype.itemsize <= 2 and ours.dtype.kind in "iu" else None)
    with np.errstate(invalid="ignore"):
        largest = float(np.max(np.where(same, 0.0, np.abs(a - b))))
    if not np.isfinite(largest):
        return Difference(np.inf, None, "infinite or no number in one of them")
    if ours.dtype.kind in "iu" and ours.dtype.itemsize <= 2:
        return Difference(largest / float(np.iinfo(ours.dtype).max), int(largest))
    scale = max(1.0, float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0)))
    return Difference(largest / scale)
