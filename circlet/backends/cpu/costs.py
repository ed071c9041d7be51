"""The cost model: the cycles that candidates are predicted to take.

A cycle here is the time in which a core multiplies and adds one vector, whatever its width, so
that one set of numbers serves all instruction sets, and a network becomes the same code on every
machine. The numbers were fitted to what tuning measured on AVX-512 and AVX2 (docs/tuning.md).
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from circlet.backends.cpu.abi import LINE_BYTES

_LATENCY = 8.0  # of a step of depth: below it, multiply-adds wait for each other
_STEP = 1.0  # what a step of depth takes besides
_LOAD, _HALF_LOAD = 1.0, 0.8  # of a vector or a broadcast input; where tiles are half a vector wide
_BROADCAST_LOAD = 1.25  # of either, where a broadcast is an instruction of its own
_LANE_LOAD, _LANE_STEP = 0.5, 1.5  # where one load brings a pixel's inputs of four steps
_DOT_LOAD = 0.4  # loads of 8-bit kernels, over a dot product
_PAIR_LOAD, _PAIR_STEP = 0.2, 0.6  # where two instructions and more make a sum of it
_PAIR_ALONE = 0.5  # of inputs that one product alone uses
_PAIR_FAR_LOAD = 0.6  # of weights from the second-level cache
_PAIR_TEMPORARIES, _PAIR_SPILL = 6, 0.2
_PAIR_STEPS, _PAIR_EXCESS, _INT16_STEPS = 2.5, 5.0, 3.9  # instructions of four taps of a register
_SPARSE_ENTRY, _SPARSE_TAPS, _SPARSE_SUMS = 1.1, 14.0, 28.0  # taps and sums change their layout
_WINDOW_TILE = 8.0  # what a tile of a float depthwise convolution takes besides its products
_WINDOW_LATENCY = 4.0  # of its multiply-adds, in products of a core with one port for them
_NEAR_BYTES, _FAR_BYTES = 16.0, 4.0  # of weights a cycle, from the second-level cache and beyond
_FIRST_LEVEL_BYTES = 32 << 10
_WAY_BYTES = 4096  # of the first-level cache
_WAYS_KEPT, _CONFLICT = 7, 0.1  # lines of a set that inputs may have; what each more costs
_SECOND_LEVEL_BYTES = 768 << 10  # of weights that the second-level cache keeps


def float_tile(pixels: int, vectors: float, depth: int) -> float:
    """Cycles of a tile of so many pixels by vectors of channels.

    A step of depth takes its products, its loads, or the latency of a chain of sums, whichever is
    longest.
    """
    inputs = pixels * (_HALF_LOAD if vectors < 1 else _LOAD)
    return (max(pixels * vectors, inputs + vectors * _LOAD, _LATENCY) + _STEP) * depth


def most_in_a_set(count: int, stride: int, length: int) -> int:
    """The most lines of one set of the first-level cache that so many runs of bytes touch.

    Runs whose distance is a multiple of a way's size, or nearly, meet in one set.

    Args:
        count: Of runs.
        stride: Bytes from one to the next.
        length: Of each, in bytes.
    """
    starts = range(0, count * stride, stride) if stride else (0,)
    lines = {
        line
        for start in starts
        for line in range(start // LINE_BYTES, (start + length - 1) // LINE_BYTES + 1)
    }
    return max(Counter(line % (_WAY_BYTES // LINE_BYTES) for line in lines).values())


@lru_cache(maxsize=1024)
def conflicts(pixels: int, pixel_bytes: int) -> float:
    """By what factor a step takes longer as inputs push each other out of the first-level cache.

    Args:
        pixel_bytes: Between the inputs of two pixels; 0 where they are not read side by side.
    """
    met = most_in_a_set(pixels, pixel_bytes, 1)
    return 1.0 + _CONFLICT * max(0, met - _WAYS_KEPT)


def broadcast_tile(pixels: int, vectors: float, depth: int) -> float:
    """The same where multiply-adds do not broadcast an input that they load themselves."""
    loads = (pixels + vectors) * _BROADCAST_LOAD
    return (max(pixels * vectors, loads, _LATENCY) + _STEP) * depth


def lane_tile(pixels: int, vectors: float, depth: int) -> float:
    """The same where inputs are multiplied by lane, and loads are instructions of their own."""
    loads = _LANE_LOAD * (pixels + vectors)
    return (max(pixels * vectors + loads, _LATENCY) + _LANE_STEP) * depth


def dot_tile(pixels: int, vectors: int) -> float:
    """Cycles of a tile of 8-bit sums per group of four taps."""
    return pixels * vectors + _DOT_LOAD * (pixels + vectors)


def paired_tile(pixels: int, vectors: int, registers: int, is_near: bool) -> float:
    """The same where products are added in 16 bits: temporaries take registers of sums.

    Args:
        is_near: Whether weights stay in the first-level cache from tile to tile.
    """
    sums = pixels * vectors
    spilled = max(0, sums + vectors + _PAIR_TEMPORARIES - registers)
    inputs = pixels * (_PAIR_ALONE if vectors == 1 else _PAIR_LOAD)
    loads = inputs + (_PAIR_LOAD if is_near else _PAIR_FAR_LOAD) * vectors
    return sums + loads + _PAIR_STEP + _PAIR_SPILL * spilled


def paired_steps(excess: float) -> float:
    """Instructions of four taps of a register and a pixel, where products are added in 16 bits.

    Args:
        excess: Steps of what weights exceed their bounds by, for each of these.
    """
    return _PAIR_STEPS + _PAIR_EXCESS * excess


def int16_steps() -> float:
    """The same of products of int16."""
    return _INT16_STEPS


def sparse_steps(entries: float, channels: int, taps: int, full: float) -> float:
    """The same where the excess is a sparse matrix.

    Args:
        entries: For each four taps of a register.
        channels, taps: Of the product.
        full: The part of all chunks of pixels that rows of outputs fill.
    """
    return (
        _PAIR_STEPS
        + (_SPARSE_ENTRY * entries + _SPARSE_TAPS / channels + _SPARSE_SUMS / taps) / full
    )


def window(pixels: int, taps: int) -> float:
    """Cycles of a tile of a float depthwise convolution, per vector of channels.

    The sums of few pixels wait for each other: each is one chain of multiply-adds.
    """
    return taps * max(pixels, _WINDOW_LATENCY) + _WINDOW_TILE


def are_nearest(count_bytes: float) -> bool:
    """Whether weights stay in the first-level cache while they are used again."""
    return count_bytes <= _FIRST_LEVEL_BYTES


def are_near(count_bytes: float) -> bool:
    """Whether weights stay in the second-level cache while they are used again."""
    return count_bytes <= _SECOND_LEVEL_BYTES


def weights(count_bytes: float) -> float:
    """Cycles in which weights are loaded once."""
    return count_bytes / (_NEAR_BYTES if are_near(count_bytes) else _FAR_BYTES)
