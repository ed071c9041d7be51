"""How fast some threads together read memory that no cache holds."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

from circlet.backends.cpu.loader import Library, address_of
from circlet.backends.cpu.profiling.peaks import PROBE
from circlet.backends.cpu.toolchain import compile_unit
from circlet.target.targets import Target

ROOM_BYTES = 256 << 20
_ROUNDS, _SINK = 11, 256


def read_gbs(target: Target, threads: int) -> float:
    """Gigabytes a second of the best of some rounds, each thread reading memory of its own.

    Raises:
        CompilerMissingError: There is no C compiler.
    """
    library = Library(compile_unit(PROBE.read_text(encoding="utf-8"), target), "probe")
    size = ROOM_BYTES // threads // 4096 * 4096
    rooms = [np.ones(size // 4, np.int32) for _ in range(threads)]
    sinks = [np.zeros(_SINK, np.int32) for _ in range(threads)]
    pointer, count = ctypes.c_void_p, ctypes.c_uint64
    function = library.function("probe_read", count, pointer, count, pointer)

    def read(number: int) -> int:
        return int(function(1, address_of(rooms[number]), size, address_of(sinks[number])))

    def rate(pool: ThreadPoolExecutor) -> float:
        start = perf_counter()
        done = sum(pool.map(read, range(threads)))
        return done / (perf_counter() - start) / 1e9

    with ThreadPoolExecutor(threads) as pool:
        return max(rate(pool) for _ in range(_ROUNDS))
