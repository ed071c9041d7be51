"""Cases that do not count, by name, and why: each reason shows that the expectation is wrong."""

from __future__ import annotations

import fnmatch

_NOT_THE_VARIANCE = (
    "the operation is defined to divide by sqrt(variance + epsilon), and what is expected was "
    "divided by sqrt(mean square + epsilon): of the channel 1, 2, 2, 4 (mean 2.25, variance "
    "1.1875, mean square 6.25) it has (1 - 2.25) / sqrt(6.2501) = -0.499996, where -1.25 / "
    "sqrt(1.1876) = -1.147030 is right, as later releases of Android expect"
)

# A pattern of names -> why.
LEFT_OUT = {
    "skip/V1_2/instance_normalization_nchw*": _NOT_THE_VARIANCE,
    "skip/V1_2/instance_normalization_nhwc*": _NOT_THE_VARIANCE,
}


def why_left_out(name: str) -> str:
    """Why a case does not count; "" where it does."""
    found = (why for pattern, why in LEFT_OUT.items() if fnmatch.fnmatch(name, pattern))
    return next(found, "")
