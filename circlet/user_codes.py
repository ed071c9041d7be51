"""Which custom operators users have registered in this process.

Artifacts of models with such operators are not kept in the cache: what they compute is known to
this process only. This module imports little, so that a cached start stays short.
"""

from __future__ import annotations

from circlet.stored import Stored

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


def may_use_user_codes(source: Stored) -> bool:
    """Whether a model mentions a registered name anywhere; names are stored as they are."""
    if not _CODES:
        return False
    data = bytes(source.data())
    return any(code in data for code in _CODES.values())
