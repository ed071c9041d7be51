"""Inputs for a network, and what numpy answers; answers that count as the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from circlet import Session
from circlet.formats.arrays import Wanted, random_array

TOLERANCE = 1e-4


@lru_cache(maxsize=1)
def question(path: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Seeded inputs of a network and the outputs of the operators' records."""
    session = Session(path, backends=("reference",))
    inputs = [random_array(Wanted(v.name, v.dtype, v.shape)) for v in session.inputs]
    return inputs, list(session.run(inputs).values())


def assert_same(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    """Integers are equal bit for bit, floats within what a network may be off."""
    for ours, theirs in zip(got, wanted, strict=True):
        if theirs.dtype.kind != "f":
            np.testing.assert_array_equal(ours, theirs)
            continue
        differs = (ours != theirs) & ((ours == ours) | (theirs == theirs))
        error = np.abs(ours[differs].astype(np.float64) - theirs[differs]).max(initial=0)
        largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
        assert error <= TOLERANCE * max(1.0, float(largest))
