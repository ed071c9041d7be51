"""Holds processes to fewer instructions than this CPU has, so that peers can be met on older ones.

Engines choose their kernels by the instruction CPUID. Intel's CPUs can let it fault, and Linux lets
a process ask for that (arch_prctl, ARCH_SET_CPUID): a library that is loaded ahead of the program
then answers with bits cleared. Circlet itself compiles for the target. Ports, caches and clock stay
those of this CPU, so figures stand for the instructions alone.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from circlet.backends.cpu.c_compiler import find_compiler
from circlet.errors import TargetError
from circlet.target.host import host_words
from circlet.target.targets import Target, native_target

_SOURCE = Path(__file__).with_name("cpuid.c")
_EAX, _EBX, _ECX, _EDX = range(4)
# Leaf, subleaf, register and bit of CPUID, with Circlet's feature.
_OWN = (
    ((7, 0, _EBX, 16), "avx512f"),
    ((7, 0, _EBX, 17), "avx512dq"),
    ((7, 0, _EBX, 28), "avx512cd"),
    ((7, 0, _EBX, 30), "avx512bw"),
    ((7, 0, _EBX, 31), "avx512vl"),
    ((7, 0, _ECX, 1), "avx512vbmi"),
    ((7, 0, _ECX, 11), "avx512vnni"),
    ((7, 0, _EDX, 22), "amx_bf16"),
    ((7, 0, _EDX, 23), "avx512fp16"),
    ((7, 0, _EDX, 24), "amx_tile"),
    ((7, 0, _EDX, 25), "amx_int8"),
    ((7, 1, _EAX, 4), "avxvnni"),
    ((7, 1, _EAX, 5), "avx512bf16"),
    ((7, 1, _EDX, 4), "avxvnniint8"),
)
# Instructions that Circlet has no name for, with the feature that they come and go with.
_WITH = (
    ((7, 0, _EBX, 21), "avx512vnni"),  # IFMA
    ((7, 0, _ECX, 6), "avx512vnni"),  # VBMI2
    ((7, 0, _ECX, 12), "avx512vnni"),  # BITALG
    ((7, 0, _ECX, 14), "avx512vnni"),  # VPOPCNTDQ
    ((7, 1, _EAX, 21), "amx_tile"),  # AMX-FP16
    ((7, 1, _EAX, 23), "avxvnniint8"),  # AVX-IFMA
    ((7, 1, _EDX, 5), "avxvnniint8"),  # AVX-NE-CONVERT
)


def cleared(target: Target) -> str:
    """What `cpuid.c` is told: the bits of all that the target's code does without."""
    masks: dict[tuple[int, int, int], int] = {}
    for (*register, bit), feature in (*_OWN, *_WITH):
        if not target.has(feature):
            leaf, subleaf, number = register
            masks[leaf, subleaf, number] = masks.get((leaf, subleaf, number), 0) | 1 << bit
    return ",".join(
        f"{leaf:x}.{subleaf:x}.{number:x}={mask:x}"
        for (leaf, subleaf, number), mask in masks.items()
    )


@contextmanager
def held_to(target: Target) -> Iterator[None]:
    """Hold processes that are started meanwhile to a target's instructions; the native: as it is.

    Raises:
        TargetError: The target is of another architecture, or this system cannot.
    """
    native = native_target()
    if target == native:
        yield
        return
    if target.arch != "x86_64" or native.arch != "x86_64" or "cpuid_fault" not in host_words():
        raise TargetError(
            f"peers cannot be held to {target} here",
            why="that takes an x86-64 CPU with CPUID faulting (cpuid_fault in /proc/cpuinfo)",
            fix="measure without --target, or on a machine of that class",
        )
    with tempfile.TemporaryDirectory(prefix="bench-held-") as folder:
        library = Path(folder) / "cpuid.so"
        flags = ["-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
        subprocess.run([*find_compiler().command, *flags], check=True)
        with _environment(LD_PRELOAD=str(library), CPUID_CLEAR=cleared(target)):
            yield


@contextmanager
def _environment(**changes: str) -> Iterator[None]:
    """Variables of this process, and so of those that it starts, for a while."""
    usual = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in usual.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
