"""A file that ends in the middle."""

from __future__ import annotations

from tests.attacks.build import small

CODE = "E-FORMAT"


def make() -> bytes:
    data = small()
    return data[: len(data) // 2]
