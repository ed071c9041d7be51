"""Element types that numpy has from the package ml_dtypes, by their names."""

from __future__ import annotations

from functools import cache

import numpy as np

SMALL_BITS = {"INT2": 2, "UINT2": 2, "INT4": 4, "UINT4": 4, "FLOAT4_E2M1FN": 4, "BFLOAT16": 16}
_FLOAT8 = ("E4M3FN", "E4M3FNUZ", "E5M2", "E5M2FNUZ", "E8M0FNU")
SMALL_BITS |= {f"FLOAT8_{form}": 8 for form in _FLOAT8}


def small_dtype(name: str) -> np.dtype[np.generic] | None:
    """The dtype of ml_dtypes of a name; None where that is not installed, or lacks it."""
    try:
        import ml_dtypes  # Here: most networks have no such tensors, and need no such package.
    except ImportError:
        return None
    found = getattr(ml_dtypes, name.lower(), None)
    return None if found is None else np.dtype(found)


@cache  # every run asks for those of its inputs
def dtype_named(name: str) -> np.dtype[np.generic]:
    """The dtype that numpy, or ml_dtypes, calls so; TypeError where neither does."""
    found = small_dtype(name) if name.upper() in SMALL_BITS else None
    return np.dtype(name) if found is None else found
