"""Peaks of this machine, measured through the same compiler and vectors as the kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from circlet.backends.cpu.loader import Library, address_of
from circlet.backends.cpu.toolchain import compile_unit
from circlet.backends.profiled import LEVELS_BYTES, Peaks
from circlet.target.targets import Target

PROBE = Path(__file__).with_name("probe.c")
_TWO = (ctypes.c_uint64, ctypes.c_void_p)
_ROUND_NS = 2_000_000
_SINK = 256
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_TILES = 158, 0x1023, 18
_ROUNDS = 12


@cache
def measured_peaks(target: Target) -> Peaks:
    """The peaks of the core that the calling thread runs on; takes about half a second.

    Raises:
        CompilerMissingError: There is no C compiler.
    """
    text = PROBE.read_text(encoding="utf-8")
    library = Library(compile_unit(text, target), "probe")
    sink, room = np.zeros(_SINK, np.int32), np.ones(LEVELS_BYTES[-1] // 4, np.int32)
    at, data = address_of(sink), address_of(room)

    def arithmetic(name: str) -> float:
        function = library.function(name, *_TWO)
        return _best(lambda blocks: function(blocks, at))

    def traffic(name: str, size: int) -> float:
        function = library.function(name, *_TWO, *_TWO)
        return _best(lambda blocks: function(blocks, data, size, at))

    dots = [arithmetic(name) for name in ("probe_dot", *_blocked_dots(target))]
    return Peaks(
        arithmetic("probe_fma"),
        max(dots),
        dots[0],
        arithmetic("probe_madd"),
        arithmetic("probe_requantize"),
        tuple(traffic("probe_read", size) for size in LEVELS_BYTES),
        tuple(traffic("probe_copy", size) for size in LEVELS_BYTES),
    )


def _blocked_dots(target: Target) -> list[str]:
    """Probes of what multiplies small matrices."""
    if target.has("i8mm"):
        return ["probe_matrix"]
    return ["probe_tiles"] if target.has("amx_int8") and may_use_tiles() else []


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
