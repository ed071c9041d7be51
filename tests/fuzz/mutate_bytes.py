"""Mutations of a file's bytes: most leave no well-formed file behind."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

WORDS = (0, 1, 2, 4, 8, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4)
Mutation = Callable[[bytearray, Random], None]


def _place(data: bytearray, random: Random, size: int) -> int:
    """Somewhere in the file, most often near its start, where the tables are."""
    end = max(1, len(data) - size + 1)
    return random.randrange(min(end, 4096)) if random.random() < 0.6 else random.randrange(end)


def flip_bit(data: bytearray, random: Random) -> None:
    if data:
        data[_place(data, random, 1)] ^= 1 << random.randrange(8)


def set_byte(data: bytearray, random: Random) -> None:
    if data:
        data[_place(data, random, 1)] = random.randrange(256)


def set_word(data: bytearray, random: Random) -> None:
    """An aligned word that counts, indexes or points somewhere becomes another."""
    if len(data) >= 8:
        at = _place(data, random, 4) & ~3
        near = len(data) + random.randrange(-16, 16)
        data[at : at + 4] = struct.pack("<I", random.choice([*WORDS, near]) & 0xFFFFFFFF)


def nudge_word(data: bytearray, random: Random) -> None:
    if len(data) >= 8:
        at = min(_place(data, random, 4) & ~3, len(data) - 4)
        (value,) = struct.unpack_from("<I", data, at)
        struct.pack_into("<I", data, at, (value + random.randrange(-8, 9)) & 0xFFFFFFFF)


def copy_block(data: bytearray, random: Random) -> None:
    if len(data) >= 8:
        size = random.randrange(1, min(64, len(data)))
        source, target = _place(data, random, size), _place(data, random, size)
        data[target : target + size] = data[source : source + size]


def cut(data: bytearray, random: Random) -> None:
    if data:
        del data[random.randrange(len(data)) :]


def delete_block(data: bytearray, random: Random) -> None:
    at = _place(data, random, 4)
    del data[at : at + 4 * random.randrange(1, 8)]


def insert_block(data: bytearray, random: Random) -> None:
    at = _place(data, random, 4)
    data[at:at] = random.randbytes(4 * random.randrange(1, 8))


MUTATIONS: tuple[Mutation, ...] = (
    *(flip_bit, set_byte, set_word, set_word, nudge_word, nudge_word),
    *(copy_block, cut, delete_block, insert_block),
)


def mutate(data: bytes, random: Random) -> bytes:
    """The file with a few of its bytes changed."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        random.choice(MUTATIONS)(changed, random)
    return bytes(changed)
