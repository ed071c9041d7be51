"""A shape of 2^32-1 entries."""

from __future__ import annotations

import struct

from tests.attacks.build import find_vector, small, with_u32

CODE = "E-FORMAT"


def make() -> bytes:
    data = small()
    return with_u32(data, find_vector(data, 2, struct.pack("<2i", 1, 4)), 2**32 - 1)
