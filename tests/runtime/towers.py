"""Networks with branches that are worth running side by side, and a backend for each."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from tests.windows import conv2d_attrs

SIZE, CHANNELS = 24, 24


def _tower(b: Builder, x: Tensor, name: str, depth: int, window: int = 3) -> Tensor:
    random, t = np.random.default_rng(len(name) + depth), x
    for index in range(depth):
        values = random.normal(0, 0.1, (CHANNELS, window, window, CHANNELS)).astype(np.float32)
        weights = b.constant(f"{name}{index}.w", values)
        kind = f"{name}{index}"
        t = b.op("CONV_2D", [t, weights, None], conv2d_attrs("SAME", 1, 1), name=kind)
        t = b.op("RELU", [t], name=f"{kind}.relu")
    return t


def towers(depths: tuple[int, ...] = (3, 3), size: int = SIZE) -> bytes:
    """Convolutions in as many towers as there are depths over one input "x", then their sum."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, size, size, CHANNELS))
    stem = _tower(b, x, "stem", 1, 1)
    ends = [_tower(b, stem, f"tower{'abcdefgh'[n]}.", depth) for n, depth in enumerate(depths)]
    t = ends[0]
    for index, end in enumerate(ends[1:]):
        t = b.op("ADD", [t, end], name=f"join{index}")
    return dumps(b.output(b.op("TANH", [t], name="y")).model(), "tflite")


def image(size: int = SIZE, seed: int = 5) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(0, 1, (1, size, size, CHANNELS)).astype(np.float32)
