"""Which custom operators users have registered in this process.

Artifacts of models with such operators are not kept in the cache: what they compute is known to
this process only. This module imports little, so that a cached start stays short.
"""

from __future__ import annotations

import mmap
import os

from circlet.regular_files import open_regular

_CODES: dict[str, bytes] = {}


def add_user_code(code: str) -> None:
    """Remember a custom operator's name."""
    _CODES[code] = code.encode()


def forget_user_code(code: str) -> None:
    """Forget a custom operator's name."""
    _CODES.pop(code, None)


def is_user_code(code: str) -> bool:
    """Whether a user registered a custom operator of this name."""
    return code in _CODES


def may_use_user_codes(source: str | os.PathLike[str] | bytes | memoryview) -> bool:
    """Whether a model mentions a registered name anywhere; names are stored as they are."""
    if not _CODES:
        return False
    if not isinstance(source, (str, os.PathLike)):
        return _mentions(bytes(source))
    with open_regular(source, "the model file") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return _mentions(mapped)


def _mentions(data: bytes | mmap.mmap) -> bool:
    return any(data.find(code) >= 0 for code in _CODES.values())
