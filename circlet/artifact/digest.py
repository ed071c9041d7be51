"""The hash that names and checks files: BLAKE2b of 32 bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:  # importing hashlib loads OpenSSL, a tenth of a start
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b

DIGEST_BYTES = 32


def hasher(data: bytes = b"") -> blake2b:
    """A hash that can be fed further."""
    return blake2b(data, digest_size=DIGEST_BYTES)


def digest(data: bytes | memoryview) -> bytes:
    """The hash of some bytes."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
