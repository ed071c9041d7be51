"""Numbers and names that programs trip over."""

from __future__ import annotations

from math import inf, nan
from random import Random

import numpy as np

from circlet.ir import DType, Quantization

SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 255, 257, 1000)
HUGE = (4097, 65536, 1 << 20, 1 << 28, (1 << 31) - 1)
INTEGERS = (
    *(-(1 << 31), -65536, -129, -128, -17, -5, -3, -2, -1, 0, 1, 2, 3, 4, 5, 8, 16, 33, 100),
    *(127, 128, 255, 256, 32767, 65536, 1 << 20, (1 << 31) - 1),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 1e30, 3.4e38, inf, -inf, nan, 1e-6, 127.0)
DTYPES = tuple(
    DType[name]
    for name in (
        *("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64", "BOOL", "FLOAT16", "FLOAT64"),
        *("UINT16", "UINT32", "UINT64", "INT4", "STRING", "RESOURCE", "VARIANT", "COMPLEX64"),
        "BFLOAT16",
    )
)


def size(random: Random) -> int:
    """A dimension, seldom a huge one."""
    return random.choice(HUGE) if random.random() < 0.08 else random.choice(SIZES)


def shape(random: Random) -> tuple[int, ...]:
    """A shape of mostly few and small dimensions."""
    rank = random.choice((0, 1, 1, 2, 2, 3, 4, 4, 4, 5, 6, 8))
    small = SIZES[: random.choice((4, 8, 16))]
    return tuple(
        random.choice(small) if random.random() < 0.9 else size(random) for _ in range(rank)
    )


def array(dtype: DType, dims: tuple[int, ...], random: Random) -> np.ndarray:
    """Constant data: small numbers, the whole range, or one number throughout."""
    generator = np.random.default_rng(random.getrandbits(32))
    if dtype.is_float or dtype.name.startswith("COMPLEX"):
        values = generator.normal(0, random.choice((0.1, 1, 100)), dims)
        if random.random() < 0.3:
            values = np.full(dims, random.choice(FLOATS))
        with np.errstate(all="ignore"):
            return np.asarray(values, dtype.numpy)
    style = random.random()
    if style < 0.4:
        numbers = generator.integers(-2, 6, dims)
    elif style < 0.7:
        numbers = generator.choice(np.array(INTEGERS, np.int64), dims)
    else:
        numbers = np.full(dims, random.choice(INTEGERS), np.int64)
    return numbers.astype(dtype.numpy)


def quantization(dims: tuple[int | None, ...], random: Random) -> Quantization | None:
    """Parameters that fit the shape, or some that do not."""
    style = random.random()
    if style < 0.15:
        return None
    if style < 0.6:
        scale = random.choice((1.0, 0.5, 0.007, 1 / 256, 1e-3, *FLOATS))
        return Quantization.per_tensor(scale, random.choice((0, 0, 0, 3, -128, 127, 128, -1, 256)))
    axis = random.randrange(max(1, len(dims))) if random.random() < 0.8 else random.choice(INTEGERS)
    count = dims[axis] if 0 <= axis < len(dims) else 2
    if count is None or not 0 < count < 10_000 or random.random() < 0.2:
        count = random.choice((1, 2, 3, 7))
    scales = np.random.default_rng(random.getrandbits(32)).uniform(1e-3, 0.1, count)
    return Quantization.per_channel(scales.astype(np.float32), axis)
