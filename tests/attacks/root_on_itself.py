"""A root offset of 0: the table would lie on the offset that leads to it."""

from __future__ import annotations

from tests.attacks.build import small, with_u32

CODE = "E-FORMAT"


def make() -> bytes:
    return with_u32(small(), 0, 0)
