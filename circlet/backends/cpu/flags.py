"""The compiler flags of a target: the only place that spells them."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.errors import TargetError
from circlet.target.features import FEATURES
from circlet.target.targets import Target

# Units are freestanding: they load wherever the runtime library does. Contraction is off, and so
# is strict aliasing: kernels say what is fused, and buffers hold elements of any type.
# Without errno and traps, roots and selections can be vector instructions.
COMMON = (
    "-std=gnu11",
    "-O3",
    "-g0",
    "-shared",
    "-fPIC",
    "-nostdlib",
    "-ffreestanding",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-ident",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-Werror=implicit-function-declaration",
)

_NO_SANITIZER = "-fno-sanitize=all"
_FAMILY = {
    "zig": (_NO_SANITIZER, "-Wno-unused-command-line-argument"),
    "clang": ("-Wno-unused-command-line-argument",),
    "gcc": ("-Wno-psabi", "-fno-semantic-interposition"),
}

_ZIG_TRIPLE = {
    "x86_64": "x86_64-linux-none",
    "aarch64": "aarch64-linux-none",
    "armv7": "arm-linux-gnueabihf",
    "riscv64": "riscv64-linux-none",
}
_ZIG_CPU = {
    "x86_64": "x86_64",
    "aarch64": "generic",
    "armv7": "generic+v7a",
    "riscv64": "generic_rv64+m+a+f+d+c",
}
_CLANG_TRIPLE = {
    "x86_64": "x86_64-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "armv7": "arm-linux-gnueabihf",
    "riscv64": "riscv64-linux-gnu",
}


def unit_flags(target: Target, family: str, extra: Sequence[str] = ()) -> list[str]:
    """All flags with which a compiler of the family (`zig`, `clang`, `gcc`) builds a unit.

    zig's refusal of sanitizers would overrule one that the extra flags ask for: it is left out.
    """
    sanitized = any(flag.startswith("-fsanitize=") for flag in extra)
    own = [flag for flag in _FAMILY[family] if flag != _NO_SANITIZER or not sanitized]
    return [*COMMON, *own, *_machine_flags(target, family), *_width_flags(target), *extra]


def _width_flags(target: Target) -> list[str]:
    """Without this, code over 64-byte vectors compiles to no 512-bit instruction at all."""
    return ["-mprefer-vector-width=512"] if target.has("avx512f") else []


def _machine_flags(target: Target, family: str) -> list[str]:
    if family == "zig":
        return ["-target", _ZIG_TRIPLE[target.arch], f"-mcpu={_zig_cpu(target)}"]
    triple = [f"--target={_CLANG_TRIPLE[target.arch]}"] if family == "clang" else []
    return triple + _march_flags(target)


def _zig_cpu(target: Target) -> str:
    rows = FEATURES[target.arch]
    base = rows[target.level].zig if target.level else _ZIG_CPU[target.arch]
    features = sorted(name for name in target.all_features if not rows[name].level)
    return "+".join((base, *(rows[name].zig for name in features)))


def _march_flags(target: Target) -> list[str]:
    rows = FEATURES[target.arch]
    names = sorted(name for name in target.all_features if not rows[name].level)
    if target.arch == "x86_64":
        march = rows[target.level].cc if target.level else "-march=x86-64"
        return [march, *(rows[name].cc for name in names)]
    if target.arch == "aarch64":
        return ["-march=armv8.2-a" + "".join(rows[name].cc for name in names)]
    if target.arch == "armv7":
        fpu = "neon-vfpv4" if "vfp4" in names else "neon" if "neon" in names else "vfpv3-d16"
        return ["-march=armv7-a", f"-mfpu={fpu}", "-mfloat-abi=hard"]
    if target.arch == "riscv64":
        return ["-march=rv64gc" + "".join(rows[name].cc for name in names), "-mabi=lp64d"]
    raise TargetError(f"no flags are known for {target.arch}")
