"""The cost model: what candidates are predicted to take, in slots, and its parameters.

A slot is the time in which a core multiplies and adds one vector. Parameters belong to an
instruction set, not to a machine, so that a network becomes the same code everywhere; they stand
in `costs.json`, which `python -m bench fit` writes from measured candidates.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from circlet.target.targets import Target

DATA = Path(__file__).with_name("costs.json")


@dataclass(frozen=True, eq=False)
class Costs:
    """Parameters of one instruction set.

    Attributes:
        latency: Slots of a step of depth below which multiply-adds wait for each other.
        step: What a step of depth takes besides.
        load, half_load: Loads of a vector or of a broadcast input, and of an input where a tile
            is half a vector wide.
        tile: What a tile of floats takes at its start and end.
        piece: What the outputs of a pixel in a tile take besides: they are stored together.
        near_bytes, far_bytes: Weights that a slot loads from the second-level cache, and beyond.
        second_level_bytes: Weights that the second-level cache keeps.
        enter, leave: Winograd's transforms of a patch, per vector.
        dot_load: Loads of 8-bit kernels, over a dot product.
        dot_step: What a step of 8-bit kernels takes besides.
        window_tile: What a tile of a float depthwise convolution takes besides its products.
    """

    latency: float = 8.0
    step: float = 1.0
    load: float = 1.0
    half_load: float = 0.8
    tile: float = 0.0
    piece: float = 0.0
    near_bytes: float = 16.0
    far_bytes: float = 6.0
    second_level_bytes: float = 768 << 10
    enter: float = 190.0
    leave: float = 150.0
    dot_load: float = 0.4
    dot_step: float = 0.0
    window_tile: float = 8.0

    def float_tile(self, pixels: int, vectors: float, depth: int) -> float:
        """Slots of a tile of so many pixels by vectors of channels."""
        inputs = pixels * (self.half_load if vectors < 1 else self.load)
        step = max(pixels * vectors, inputs + vectors * self.load, self.latency) + self.step
        return step * depth + self.tile + self.piece * pixels

    def dot_tile(self, pixels: int, vectors: int) -> float:
        """Slots of a tile of 8-bit sums per group of four taps."""
        return pixels * vectors + self.dot_load * (pixels + vectors) + self.dot_step

    def window(self, pixels: int, taps: int) -> float:
        """Slots of a tile of a float depthwise convolution, per vector of channels."""
        return taps * pixels + self.window_tile

    def weights(self, count_bytes: float) -> float:
        """Slots in which weights are loaded once."""
        near = count_bytes <= self.second_level_bytes
        return count_bytes / (self.near_bytes if near else self.far_bytes)


DEFAULT_COSTS = Costs()


def level_of(target: Target) -> str:
    """The instruction set that decides the parameters: avx512, avx2, neon or plain."""
    if target.arch == "aarch64":
        return "neon"
    if target.arch != "x86_64" or not target.has("avx2"):
        return "plain"
    return "avx512" if target.has("avx512f") else "avx2"


@lru_cache(maxsize=8)
def costs_of_level(level: str) -> Costs:
    """The stored parameters; those that are not stored have their defaults."""
    stored = json.loads(DATA.read_text(encoding="utf-8"))
    return Costs(**stored.get(level, {}))


@lru_cache(maxsize=64)
def costs_of(target: Target) -> Costs:
    """The parameters for a target."""
    return costs_of_level(level_of(target))
