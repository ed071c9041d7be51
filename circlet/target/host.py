"""This machine's processor in the system's own words; on the path of every cached start."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import lru_cache

_ARCH_PRCTL, _ARCH_GET_XCOMP_SUPP, _XFEATURE_XTILEDATA = 158, 0x1021, 18
_TILES = "amx_"
_MODEL_NUMBERS = ("vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part")

_MACHINES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "armv7l": "armv7",
    "armv8l": "armv7",
    "riscv64": "riscv64",
}


def host_architecture() -> str:
    """The architecture of this machine, by Circlet's name or else the system's."""
    machine = platform.machine().lower()
    return _MACHINES.get(machine, machine)


@lru_cache(maxsize=1)
def host_words() -> frozenset[str]:
    """What the system calls the features of this CPU that programs may use."""
    words = _cpuinfo_words(host_architecture(), _cpuinfo_text())
    if "amx_tile" in words and not _may_grant_tiles():
        return frozenset(word for word in words if not word.startswith(_TILES))
    return words


def host_has(needs: Sequence[str]) -> bool:
    """Whether this machine is of the architecture that comes first, with the words behind it."""
    return needs[0] == host_architecture() and host_words().issuperset(needs[1:])


def host_model() -> str:
    """The name of this processor, for figures that hold for it alone."""
    lines = dict(line.split(":", 1) for line in _cpuinfo_text().splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in lines.items()}
    numbers = " ".join(named[key] for key in _MODEL_NUMBERS if key in named)
    return f"{named.get('model name', platform.machine())} ({numbers})"


def _may_grant_tiles() -> bool:
    """Whether the system knows how to save AMX tiles, and lets this process ask."""
    import ctypes

    known = ctypes.c_uint64()
    asked = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_GET_XCOMP_SUPP, ctypes.byref(known))
    return asked == 0 and bool(known.value >> _XFEATURE_XTILEDATA & 1)


def _cpuinfo_text() -> str:
    """The first processor's lines, and little more: the system makes them up as they are read."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            return file.read(1 << 12).decode("utf-8", "replace")
    except OSError:
        return "Features : asimd asimddp asimdhp\n" if platform.system() == "Darwin" else ""


def _cpuinfo_words(arch: str, text: str) -> frozenset[str]:
    key = {"x86_64": "flags", "riscv64": "isa"}.get(arch, "Features")
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return _isa_letters(value) if arch == "riscv64" else frozenset(value.split())
    return frozenset()


def _isa_letters(isa: str) -> frozenset[str]:
    base, *extensions = isa.strip().split("_")
    return frozenset(base.removeprefix("rv64")) | frozenset(extensions)
