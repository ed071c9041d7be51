"""Whether this machine can compile: what `circlet doctor` says of the cpu backend."""

from __future__ import annotations

import time

from circlet.backends.cpu.toolchain import compile_unit, find_compiler
from circlet.target.targets import native_target

_PROBE = "int circlet_probe(void) { return 1; }\n"


def compiler_facts() -> str:
    """The compiler's version and the time of a small unit; raises as `compile_unit`."""
    compiler = find_compiler()
    start = time.perf_counter()
    compile_unit(_PROBE, native_target())
    elapsed = (time.perf_counter() - start) * 1e3
    return f"{compiler.version()} ({compiler.command[0]}), a small unit in {elapsed:.0f} ms"
