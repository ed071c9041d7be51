"""The parameter structs of kernels as bytes."""

from __future__ import annotations

from functools import lru_cache

from circlet.backends.cpu.abi import Packer, params_dtype
from circlet.backends.cpu.toolchain import KERNELS_DIR


@lru_cache(maxsize=256)
def struct_packer(header: str, struct: str) -> Packer:
    """Lays values out as a struct that a kernel's header declares."""
    text = (KERNELS_DIR / header).read_text(encoding="utf-8")
    return Packer(params_dtype(text, struct, KERNELS_DIR))


def params_packer(header: str, function: str) -> Packer:
    """Lays out the parameters of a kernel."""
    return struct_packer(header, f"{function}_params")
