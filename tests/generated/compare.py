"""How two results differ: integers bit for bit, floats within a bar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BAR = 1e-5
_HALF_BAR = 4e-3  # of values that are rounded to 11 bits on the way


def differences(
    actual: Sequence[np.ndarray], wanted: Sequence[np.ndarray], *, by_element: bool
) -> str:
    """What differs first, "" where nothing does.

    `by_element` measures each float against itself, else against the largest finite one.
    """
    if len(actual) != len(wanted):
        return f"{len(actual)} outputs, not {len(wanted)}"
    for index, (made, right) in enumerate(zip(actual, wanted, strict=True)):
        if made.dtype != right.dtype or made.shape != right.shape:
            return f"{made.dtype}{list(made.shape)}, not {right.dtype}{list(right.shape)}"
        wrong = _wrong(made, right, by_element)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            count = f"{np.count_nonzero(wrong)} of {wrong.size}"
            return f"output {index}{list(place)} is {made[place]!r}, not {right[place]!r}; {count}"
    return ""


def _wrong(made: np.ndarray, right: np.ndarray, by_element: bool) -> np.ndarray:
    if made.dtype.kind not in "fc":
        return np.asarray(made != right)
    with np.errstate(all="ignore"):
        wide = np.result_type(made.dtype, np.float64)
        same = (made == right) | (np.isnan(made) & np.isnan(right))
        size = np.abs(right.astype(wide))
        if not by_element:
            finite = size[np.isfinite(size)]
            size = np.full_like(size, finite.max(initial=0.0))
        error = np.abs(made.astype(wide) - right.astype(wide))
        bar = _HALF_BAR if made.dtype == np.float16 else BAR
        near = error <= bar * np.maximum(1.0, size)
    return np.asarray(~(same | (near & np.isfinite(right))))
