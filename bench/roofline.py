"""Peaks of this machine, measured through the same compiler and vectors as the kernels."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from circlet.backends.cpu.loader import Library, address_of
from circlet.backends.cpu.toolchain import compile_unit
from circlet.target.targets import Target, native_target

LEVELS_BYTES = tuple(16 << 10 + step for step in range(13))
"""Working sets at which bandwidth is measured: from what fits L1 to what fits no cache."""

_TWO = (ctypes.c_uint64, ctypes.c_void_p)
_ROUND_NS = 2_000_000
_SINK = 256
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_TILES = 158, 0x1023, 18
_ROUNDS = 12


@dataclass(frozen=True)
class Peaks:
    """What one core does at most.

    Attributes:
        fp32_gflops: Fused multiply-adds, two operations each.
        int8_gops: Four-way dot products of bytes into int32: by tiles (AMX), matrices (i8mm) or
            vectors (VNNI, sdot) where the CPU has them, else as two products of int16.
        int16_gops: Two-way products of int16 into int32.
        requantised_gops: Accumulators made into int8 outputs.
        read_gbs, copy_gbs: Bandwidth at each size of `LEVELS_BYTES`; a copy counts both ways.
    """

    fp32_gflops: float
    int8_gops: float
    int16_gops: float
    requantised_gops: float
    read_gbs: tuple[float, ...]
    copy_gbs: tuple[float, ...]

    def gops(self, unit: str) -> float:
        """The peak of "fp32", "int8" or "int16" arithmetic."""
        return {"fp32": self.fp32_gflops, "int8": self.int8_gops, "int16": self.int16_gops}[unit]

    def bandwidth(self, working_set: int) -> float:
        """GB/s that no working set of so many bytes exceeds: the best of all not much smaller."""
        rates = zip(LEVELS_BYTES, self.read_gbs, self.copy_gbs, strict=True)
        best = [max(read, copy) for size, read, copy in rates if 2 * size > working_set]
        return max(best, default=max(self.read_gbs[-1], self.copy_gbs[-1]))

    def as_json(self) -> dict[str, object]:
        """Plain numbers, rounded."""
        return json.loads(json.dumps(asdict(self)), parse_float=lambda x: round(float(x), 1))


@cache
def measured_peaks() -> Peaks:
    """The peaks of the core that the calling thread runs on; takes about half a second."""
    text = (Path(__file__).parent / "probe.c").read_text(encoding="utf-8")
    target = native_target()
    library = Library(compile_unit(text, target), "probe")
    sink, room = np.zeros(_SINK, np.int32), np.ones(LEVELS_BYTES[-1] // 4, np.int32)
    at, data = address_of(sink), address_of(room)

    def arithmetic(name: str) -> float:
        function = library.function(name, *_TWO)
        return _best(lambda blocks: function(blocks, at))

    def traffic(name: str, size: int) -> float:
        function = library.function(name, *_TWO, *_TWO)
        return _best(lambda blocks: function(blocks, data, size, at))

    return Peaks(
        arithmetic("probe_fma"),
        max(arithmetic(name) for name in _dots(target)),
        arithmetic("probe_madd"),
        arithmetic("probe_requantize"),
        tuple(traffic("probe_read", size) for size in LEVELS_BYTES),
        tuple(traffic("probe_copy", size) for size in LEVELS_BYTES),
    )


def _dots(target: Target) -> list[str]:
    if target.has("i8mm"):
        return ["probe_dot", "probe_matrix"]
    tiles = target.has("amx_int8") and may_use_tiles()
    return ["probe_dot", "probe_tiles"] if tiles else ["probe_dot"]


def may_use_tiles() -> bool:
    """Ask the system for AMX tiles, which a process has to before it uses them."""
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_TILES) == 0


def _best(blocks: Callable[[int], int]) -> float:
    """Operations (or bytes) per nanosecond of the fastest round."""
    count = 1
    while _taken(blocks, count) < _ROUND_NS // 4 and count < 1 << 30:
        count *= 2
    each = blocks(1)
    return max(each * count / max(1, _taken(blocks, count)) for _ in range(_ROUNDS))


def _taken(blocks: Callable[[int], int], count: int) -> int:
    start = perf_counter_ns()
    blocks(count)
    return perf_counter_ns() - start
