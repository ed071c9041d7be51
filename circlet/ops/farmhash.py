"""FarmHash's 64-bit fingerprint of many keys of one length at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

# Primes between 2^63 and 2^64 that FarmHash multiplies by.
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_SEED, _MASK = 81, (1 << 64) - 1


def fingerprints(keys: Bytes) -> Words:
    """The fingerprint of each row of [count, length] bytes; arithmetic wraps at 64 bits."""
    length = keys.shape[1]
    with np.errstate(over="ignore"):
        if length <= 16:
            return _up_to_16(keys)
        if length <= 32:
            return _up_to_32(keys)
        return _up_to_64(keys) if length <= 64 else _longer(keys)


def _word(keys: Bytes, at: int, size: int = 8) -> Words:
    """The little-endian number in some bytes of each key."""
    part = np.ascontiguousarray(keys[:, at : at + size])
    return part.view(f"<u{size}").reshape(-1).astype(np.uint64)


def _number(value: int) -> np.uint64:
    return np.uint64(value & _MASK)


def _rotated(x: Words, bits: int) -> Words:
    return (x >> np.uint64(bits)) | (x << np.uint64(64 - bits))


def _mixed(x: Words) -> Words:
    return x ^ (x >> np.uint64(47))


def _joined(u: Words, v: Words, factor: Words | np.uint64) -> Words:
    """A hash of two words."""
    first = _mixed((u ^ v) * factor)
    return _mixed((v ^ first) * factor) * factor


def _up_to_16(keys: Bytes) -> Words:
    length = keys.shape[1]
    factor = _number(_K2 + 2 * length)
    if length >= 8:
        a, b = _word(keys, 0) + _number(_K2), _word(keys, length - 8)
        return _joined(_rotated(b, 37) * factor + a, (_rotated(a, 25) + b) * factor, factor)
    if length >= 4:
        first = np.uint64(length) + (_word(keys, 0, 4) << np.uint64(3))
        return _joined(first, _word(keys, length - 4, 4), factor)
    if length == 0:
        return np.full(len(keys), _K2, np.uint64)
    a, b, c = (_word(keys, at, 1) for at in (0, length >> 1, length - 1))
    y, z = a + (b << np.uint64(8)), np.uint64(length) + (c << np.uint64(2))
    return _mixed(y * _number(_K2) ^ z * _number(_K0)) * _number(_K2)


def _ends(keys: Bytes, first: int) -> tuple[Words, Words, Words, Words]:
    """What both ends of a key of 17 to 64 bytes give: a, b, c and d of FarmHash's listing."""
    length = keys.shape[1]
    factor = _number(_K2 + 2 * length)
    return (
        _word(keys, 0) * _number(first),
        _word(keys, 8),
        _word(keys, length - 8) * factor,
        _word(keys, length - 16) * _number(_K2),
    )


def _up_to_32(keys: Bytes) -> Words:
    a, b, c, d = _ends(keys, _K1)
    left = _rotated(a + b, 43) + _rotated(c, 30) + d
    right = a + _rotated(b + _number(_K2), 18) + c
    return _joined(left, right, _number(_K2 + 2 * keys.shape[1]))


def _up_to_64(keys: Bytes) -> Words:
    length = keys.shape[1]
    factor = _number(_K2 + 2 * length)
    a, b, c, d = _ends(keys, _K2)
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _joined(y, a + _rotated(b + _number(_K2), 18) + c, factor)
    e, f = _word(keys, 16) * factor, _word(keys, 24)
    g, h = (y + _word(keys, length - 32)) * factor, (z + _word(keys, length - 24)) * factor
    left = _rotated(e + f, 43) + _rotated(g, 30) + h
    return _joined(left, e + _rotated(f + a, 18) + g, factor)


def _weak(keys: Bytes, at: int, a: Words, b: Words) -> tuple[Words, Words]:
    """A weak hash of 32 bytes and two words, as two words."""
    w, x, y, z = (_word(keys, at + 8 * place) for place in range(4))
    a = a + w
    b = _rotated(b + a + z, 21)
    total = a + x + y
    return total + z, b + _rotated(total, 44) + a


class _State:
    """The seven words that a long key is hashed into, 64 bytes at a time."""

    def __init__(self, keys: Bytes) -> None:
        count = len(keys)
        self.keys = keys
        self.v = self.w = (np.zeros(count, np.uint64), np.zeros(count, np.uint64))
        y = (_SEED * _K1 + 113) & _MASK
        mixed = (y * _K2 + 113) & _MASK
        self.x = _number(_SEED * _K2) + _word(keys, 0)
        self.y = np.full(count, y, np.uint64)
        self.z = np.full(count, ((mixed ^ mixed >> 47) * _K2) & _MASK, np.uint64)

    def take(self, at: int, factor: Words | np.uint64, weight: int = 1) -> None:
        """Hash 64 bytes; in the last round words count `weight` times."""
        keys, (v0, v1), (w0, w1) = self.keys, self.v, self.w
        x = _rotated(self.x + self.y + v0 + _word(keys, at + 8), 37) * factor
        y = _rotated(self.y + v1 + _word(keys, at + 48), 42) * factor
        x = x ^ (w1 * np.uint64(weight))
        y = y + v0 * np.uint64(weight) + _word(keys, at + 40)
        z = _rotated(self.z + w0, 33) * factor
        self.v = _weak(keys, at, v1 * factor, x + w0)
        self.w = _weak(keys, at + 32, z + w1, y + _word(keys, at + 16))
        self.x, self.y, self.z = z, y, x


def _longer(keys: Bytes) -> Words:
    length, state = keys.shape[1], _State(keys)
    for at in range(0, (length - 1) // 64 * 64, 64):
        state.take(at, _number(_K1))
    factor = _number(_K1) + ((state.z & np.uint64(0xFF)) << np.uint64(1))
    w0 = state.w[0] + np.uint64((length - 1) & 63)
    v0 = state.v[0] + w0
    state.v, state.w = (v0, state.v[1]), (w0 + v0, state.w[1])
    state.take(length - 64, factor, 9)
    left = _joined(state.v[0], state.w[0], factor) + _mixed(state.y) * _number(_K0) + state.z
    return _joined(left, _joined(state.v[1], state.w[1], factor) + state.x, factor)
