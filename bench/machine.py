"""The machine and the software that figures were measured with."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from circlet import __version__
from circlet.costs.machine import governor
from circlet.target.targets import Target, native_target

PACKAGES = ("ai-edge-litert", "openvino", "onnxruntime", "numpy", "ziglang")


def facts(held: Target | None = None) -> dict[str, object]:
    """Processor, instruction sets, memory, load, system and versions.

    Args:
        held: The instruction sets that engines were held to (`bench.held`), if to any.
    """
    native = native_target()
    is_held = held is not None and held != native
    return {
        "cpu": _cpu_name(),
        "cpus": len(os.sched_getaffinity(0)),
        "isa": str(held or native),
        **({"held": f"every engine, by CPUID faulting, on a CPU of {native}"} if is_held else {}),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "governor": governor(),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "circlet": __version__,
        **{name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    name = named.get("model name", platform.processor() or platform.machine())
    if "cpu family" not in named:
        return name
    return f"{name} (family {named['cpu family']}, model {named.get('model', '?')})"
