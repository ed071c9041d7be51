"""A root table behind the end of the file."""

from __future__ import annotations

from tests.attacks.build import small, with_u32

CODE = "E-FORMAT"


def make() -> bytes:
    return with_u32(small(), 0, 2**32 - 1)
