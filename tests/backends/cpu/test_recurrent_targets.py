"""The recurrent kernels build for every architecture without any library."""

from __future__ import annotations

import pytest

from circlet.backends.cpu.toolchain import compile_unit
from circlet.target.targets import parse_target
from tests.tiers import slow

_TARGETS = (
    "x86_64",
    "aarch64",
    *slow("aarch64+dotprod", "armv7", "armv7+neon", "riscv64"),
)
_CALLS = {
    "lstm_f32": "8, 2, 0, 3, 1, 1",
    "lstm_hybrid": "8, 2, 1, 1, 1, 1",
    "lstm_q8": "8, 2, 0, 4, 1, 1, 3, Q8_GENERAL",
    "svdf_f32": "4",
    "svdf_q8": "4, ELEMENT_I16",
}
_FUNCTION = """__attribute__((visibility("default"))) void run_{name}(
    const void *params, void *const *operands, void *scratch, int64_t begin, int64_t end) {{
    {name}(params, operands, scratch, begin, end, {arguments});
}}
"""


@pytest.mark.parametrize("target", _TARGETS)
def test_kernels_leave_no_symbol_undefined(target: str) -> None:
    names = ("lstm", "lstm_hybrid", "lstm_q8", "svdf")
    headers = "".join(f"#include <{name}.h>\n" for name in names)
    calls = "".join(_FUNCTION.format(name=n, arguments=a) for n, a in _CALLS.items())
    image = compile_unit(headers + calls, parse_target(target), flags=("-Wl,-z,defs",))
    assert image.startswith(b"\x7fELF")
