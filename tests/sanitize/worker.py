"""Runs one network of the corpus under a sanitizer; a process of its own, for it may be killed.

    python -m tests.sanitize.worker NETWORK MODE NOTE

Writes to the file NOTE which step runs, before it runs. Prints how the answers compare with the
golden ones.
"""

from __future__ import annotations

import json
import mmap
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from circlet.backends.base import Compiled
from circlet.backends.cpu import backend, loaded_code, partition_compiler, resizer
from circlet.backends.cpu.compile import LoweredPartition, compile_partition
from circlet.backends.cpu.partition_compiler import CpuCompiler, LoweredByTarget
from circlet.backends.cpu.toolchain import UnitSource, compile_units
from circlet.formats.arrays import Wanted, random_array
from circlet.plan.partition import Partition
from circlet.runtime.session import Session
from tests.conformance import ROOMY, Subject, check, subjects
from tests.sanitize.execution import Guard, GuardedExecutable, Placed
from tests.sanitize.modes import MODES, NOTE_BYTES
from tests.sanitize.spread import Spread


def main() -> None:
    """Run the golden cases of one network."""
    network, mode, note = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    install(mode, speaker(Path(note)))
    (subject,) = subjects(network)
    row = check(subject, "cpu", 1)
    if row.native and not subject.golden.exists():
        _run_random(subject)
    sys.stdout.write(json.dumps([row.passed, row.native, row.detail]) + "\n")


def _run_random(subject: Subject) -> None:
    session = Session(subject.path, threads=1, limits=ROOMY)
    session.run([random_array(Wanted(v.name, v.dtype, v.shape)) for v in session.inputs])


def speaker(path: Path) -> Callable[[str], None]:
    """Writes to a file that outlives this process however it ends."""
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), NOTE_BYTES)

    def say(text: str) -> None:
        shared[:] = text.encode()[: NOTE_BYTES - 1].ljust(NOTE_BYTES, b"\0")

    return say


def install(mode: str, say: Callable[[str], None]) -> None:
    """Have sessions of this process compile for, and run in, guarded memory."""
    guard, chosen = Guard(say), MODES[mode]

    def compile_spread(part: Partition, *arguments: Any, **options: Any) -> LoweredPartition:
        spread = Spread(chosen.at_end)
        arranged = {**options, "arrangement": spread.arrangement}
        compiled = compile_partition(part, *arguments, **arranged)
        guard.plans[compiled.plan] = _placed(part, compiled, spread)
        guard.constants[compiled.constants] = spread.constants
        return compiled

    def compile_checked(units: Sequence[UnitSource]) -> list[bytes]:
        say("the C compiler")
        return compile_units([replace(unit, flags=(*unit.flags, *chosen.flags)) for unit in units])

    def built_checked(compiler: CpuCompiler, lowered: LoweredByTarget) -> Compiled:
        return built(compiler, lowered, compile_checked)

    GuardedExecutable.guard, built = guard, CpuCompiler.built
    for place, name, stand_in in (
        (partition_compiler, "compile_partition", compile_spread),
        (CpuCompiler, "built", built_checked),
        (resizer, "compile_units", compile_checked),
        (backend, "Executable", GuardedExecutable),
        (loaded_code, "Executable", GuardedExecutable),
    ):
        if not hasattr(place, name):
            raise AttributeError(f"{name} has moved, so that nothing would be guarded")
        setattr(place, name, stand_in)


def _placed(part: Partition, compiled: LoweredPartition, spread: Spread) -> Placed:
    names = tuple(
        f"step {number}, kernel {kernel}, of {part.ops[op].label} {part.ops[op].name}"
        for number, (op, kernel) in enumerate(compiled.steps)
    )
    scratch = tuple(call.scratch_bytes if call else 0 for call in compiled.calls)
    return Placed(spread, names, scratch)


if __name__ == "__main__":
    main()
