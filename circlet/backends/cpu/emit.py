"""Writes the C of a unit: one small function per distinct kernel, and the unit's table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from circlet.backends.cpu.lowering import Kernel

# Names come from the model: they must not end the comment that they stand in.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.:;,+\-/ ]")
_SHOWN_ORIGINS = 6
KERNEL_START = "\nstatic void kernel_"
"""What the text of each kernel has once."""

_SIGNATURE = (
    "(const void *params, void *const *operands, void *scratch, int64_t begin, int64_t end)"
)


@dataclass(frozen=True)
class EmittedKernel:
    """A kernel and the source operators that run through it."""

    kernel: Kernel
    origins: tuple[str, ...]


def emit_unit(kernels: Sequence[EmittedKernel]) -> str:
    """The C text of a unit that exports `kernels` in order through `circlet_unit_table`."""
    # Each once, in order: equal kernels give equal texts.
    headers = dict.fromkeys(item.kernel.header for item in kernels)
    includes = ["#include <circlet_abi.h>", *(f"#include <{name}>" for name in headers)]
    preludes = dict.fromkeys(item.kernel.prelude for item in kernels if item.kernel.prelude)
    functions = [_function(index, item) for index, item in enumerate(kernels)]
    return "\n".join([*includes, "", *preludes, "", *functions, _table(len(kernels))])


def kernel_text(item: EmittedKernel) -> str:
    """The C text of one kernel, for reading."""
    kernel = item.kernel
    lines = [f"#include <{kernel.header}>", kernel.prelude, _function(0, item)]
    return "\n".join(filter(None, lines))


def _function(index: int, item: EmittedKernel) -> str:
    kernel = item.kernel
    arguments = "".join(f", {argument}" for argument in kernel.arguments)
    params = f"(const struct {kernel.function}_params *)params"
    return (
        f"/* {_comment(item.origins)} */\n"
        f"{KERNEL_START[1:]}{index}{_SIGNATURE} {{\n"
        f"    {kernel.function}({params}, operands, scratch, begin, end{arguments});\n"
        "}\n"
    )


def _table(count: int) -> str:
    names = ", ".join(f"kernel_{index}" for index in range(count))
    return (
        f"static const circlet_kernel kernels[] = {{{names}}};\n"
        '__attribute__((visibility("default"))) const circlet_unit circlet_unit_table = {\n'
        f"    CIRCLET_ABI_VERSION, {count}, kernels, CIRCLET_UNIT_NEEDS}};\n"
    )


def _comment(origins: Sequence[str]) -> str:
    """Source names as comment text; nothing in them can end the comment or start a line."""
    shown = ", ".join(_UNSAFE.sub("_", name)[:80] for name in origins[:_SHOWN_ORIGINS])
    more = len(origins) - _SHOWN_ORIGINS
    return f"{shown} and {more} more" if more > 0 else shown
