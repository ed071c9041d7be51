"""Philox 4x32-10, the random generator that counts, with TensorFlow's seeds and numbers.

J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from math import pi

import numpy as np
import numpy.typing as npt

from circlet.ops.single_math import log_f32, sine_cosine_f32

Words = npt.NDArray[np.uint32]
Reals = npt.NDArray[np.float32]

STATE_SIZE = 6  # four words of the counter, two of the key
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_SMALLEST = np.float32(1e-7)  # what the logarithm is taken of at least


@dataclass
class Philox:
    """A generator at some place of its sequence.

    Attributes:
        counter: How far it is, 128 bits.
        key: Which sequence it is, 64 bits.
    """

    counter: int
    key: int

    @staticmethod
    def seeded(seed: int, seed2: int) -> Philox:
        """The generator of two seeds of 64 bits, at its start."""
        return Philox((seed2 % (1 << 64)) << 64, seed % (1 << 64))

    @staticmethod
    def unseeded() -> Philox:
        """A generator that nobody can foresee."""
        return Philox.seeded(secrets.randbits(64), secrets.randbits(64))

    @staticmethod
    def of_state(state: Words) -> Philox:
        """The generator that a state says."""
        words = [int(word) for word in state]
        counter = sum(word << 32 * place for place, word in enumerate(words[:4]))
        return Philox(counter, words[4] | words[5] << 32)

    def state(self) -> Words:
        """The generator as `STATE_SIZE` words."""
        words = [self.counter >> 32 * place for place in range(4)]
        words += [self.key, self.key >> 32]
        return np.array([word & 0xFFFFFFFF for word in words], np.uint32)

    def skip(self, blocks: int) -> None:
        """Leave out so many blocks of four words."""
        self.counter = (self.counter + blocks) % (1 << 128)

    def draw(self, blocks: int) -> Words:
        """The next words of the sequence, [blocks, 4]."""
        low = np.uint64(self.counter % (1 << 64)) + np.arange(blocks, dtype=np.uint64)
        high = self.counter >> 64
        carried = np.uint64((high + 1) % (1 << 64))
        highs = np.where(low < np.uint64(self.counter % (1 << 64)), carried, np.uint64(high))
        self.skip(blocks)
        words = [half for word in (low, highs) for half in (word & _LOW, word >> np.uint64(32))]
        return _rounds(words, self.key)


def _rounds(words: list[npt.NDArray[np.uint64]], key: int) -> Words:
    """The ten rounds that make random words of counters."""
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(_ROUNDS):
        first, second = words[0] * np.uint64(_FACTORS[0]), words[2] * np.uint64(_FACTORS[1])
        words = [
            (second >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]),
            second & _LOW,
            (first >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]),
            first & _LOW,
        ]
        keys = [(k + step) & 0xFFFFFFFF for k, step in zip(keys, _KEY_STEPS, strict=True)]
    return np.stack(words, axis=-1).astype(np.uint32)


def uniform(words: Words) -> Reals:
    """Numbers in [0, 1) of 23 bits."""
    bits = (words & np.uint32(0x7FFFFF)) | np.uint32(127 << 23)
    return np.asarray(bits.view(np.float32) - np.float32(1), np.float32)


def uniform_doubles(words: Words) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1) of 52 bits, of pairs of words along the last axis."""
    high = (words[..., 0] & np.uint32(0xFFFFF)).astype(np.uint64) << np.uint64(32)
    bits = high | words[..., 1].astype(np.uint64) | np.uint64(1023 << 52)
    return np.asarray(bits.view(np.float64) - 1.0)


def normal(words: Words) -> Reals:
    """Normal numbers, by the transform of Box and Muller of pairs of words along the last axis."""
    pairs = uniform(words).reshape(*words.shape[:-1], words.shape[-1] // 2, 2)
    radius = np.sqrt(np.float32(-2) * log_f32(np.maximum(pairs[..., 0], _SMALLEST)))
    angle = (2 * pi * pairs[..., 1].astype(np.float64)).astype(np.float32)
    sides = np.stack(sine_cosine_f32(angle), axis=-1)
    return np.asarray((sides * radius[..., None]).reshape(words.shape), np.float32)
