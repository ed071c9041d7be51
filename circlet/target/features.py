"""CPU features: one table of what they are called by the kernel, the compilers and in targets."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from circlet.target.host import host_architecture, host_words


class Feature(NamedTuple):
    """One row of the table.

    `cpuinfo` lists the words that Linux shows for it, all of which must be present; `zig` and
    `cc` are the spellings of `zig cc -mcpu=` and of GCC and Clang; `implies` names rows.
    """

    name: str
    cpuinfo: tuple[str, ...]
    zig: str
    cc: str
    implies: tuple[str, ...] = ()
    level: bool = False


def _rows(*rows: Feature) -> dict[str, Feature]:
    return {row.name: row for row in rows}


def _x86(name: str, cpuinfo: str = "", implies: str = "", zig: str = "") -> Feature:
    spelled = zig or name
    flag = "-m" + spelled.replace("_", "-")
    return Feature(name, ((cpuinfo or name),), spelled, flag, tuple(implies.split()))


def _level(name: str, cpuinfo: str, implies: str = "") -> Feature:
    cc = f"-march=x86-64-{name}"
    words = tuple(cpuinfo.split())
    return Feature(name, words, f"x86_64_{name}", cc, tuple(implies.split()), level=True)


_X86_64 = _rows(
    _level("v2", "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"),
    _level("v3", "bmi1 bmi2 abm movbe xsave", "v2 avx2 f16c fma"),
    _level("v4", "avx512f", "v3 avx512f avx512bw avx512cd avx512dq avx512vl"),
    _x86("avx"),
    _x86("avx2", implies="avx"),
    _x86("f16c", implies="avx"),
    _x86("fma", implies="avx"),
    _x86("avx512f", implies="avx2 f16c fma"),
    _x86("avx512bw", implies="avx512f"),
    _x86("avx512cd", implies="avx512f"),
    _x86("avx512dq", implies="avx512f"),
    _x86("avx512vl", implies="avx512f"),
    _x86("avx512vnni", "avx512_vnni", "avx512f"),
    _x86("avx512vbmi", "avx512vbmi", "avx512bw"),
    _x86("avx512bf16", "avx512_bf16", "avx512bw"),
    _x86("avx512fp16", "avx512_fp16", "avx512bw avx512vl"),
    _x86("avxvnni", "avx_vnni", "avx2"),
    _x86("avxvnniint8", "avx_vnni_int8", "avx2"),
    _x86("amx_tile"),
    _x86("amx_int8", implies="amx_tile"),
    _x86("amx_bf16", implies="amx_tile"),
)

_AARCH64 = _rows(
    Feature("neon", ("asimd",), "neon", "+simd"),
    Feature("dotprod", ("asimddp",), "dotprod", "+dotprod", ("neon",)),
    Feature("fp16", ("asimdhp",), "fullfp16", "+fp16", ("neon",)),
    Feature("i8mm", ("i8mm",), "i8mm", "+i8mm", ("dotprod",)),
    Feature("bf16", ("bf16",), "bf16", "+bf16", ("neon",)),
    Feature("sve", ("sve",), "sve", "+sve", ("fp16",)),
)

_ARMV7 = _rows(
    Feature("neon", ("neon",), "neon", "neon", ()),
    Feature("vfp4", ("vfpv4",), "vfp4", "vfpv4", ("neon",)),
)

_RISCV64 = _rows(Feature("v", ("v",), "v", "v"))

FEATURES: dict[str, dict[str, Feature]] = {
    "x86_64": _X86_64,
    "aarch64": _AARCH64,
    "armv7": _ARMV7,
    "riscv64": _RISCV64,
}


def closure(arch: str, names: Iterable[str]) -> frozenset[str]:
    """The features together with all that they imply."""
    table = FEATURES[arch]
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(table[name].implies)
    return frozenset(found)


def minimal(arch: str, names: frozenset[str]) -> tuple[str, ...]:
    """The sorted features that none of the others implies."""
    table = FEATURES[arch]
    implied = {other for name in names for other in closure(arch, table[name].implies)}
    return tuple(sorted(names - implied))


@lru_cache(maxsize=1)
def host_features() -> frozenset[str]:
    """The features of this CPU that the table knows."""
    arch, words = host_architecture(), host_words()
    rows = FEATURES.get(arch, {}).values()
    has = {row.name for row in rows if words.issuperset(row.cpuinfo)}
    return frozenset(name for name in has if closure(arch, (name,)) <= has)


def needed_words(arch: str, names: Iterable[str]) -> list[str]:
    """An architecture and the words that Linux shows for features: what `host_has` asks for."""
    rows = (FEATURES[arch][name] for name in closure(arch, names))
    return [arch, *sorted({word for row in rows for word in row.cpuinfo})]
