"""The float kernels build for every architecture without any library."""

from __future__ import annotations

import pytest

from circlet.backends.cpu.toolchain import compile_unit
from circlet.errors import CompileError
from circlet.target.targets import parse_target
from tests.tiers import slow

_TARGETS = (
    "x86_64",
    "aarch64+neon",
    *slow("x86_64+v4", "armv7", "armv7+neon", "riscv64"),
)
_HEADERS = ("conv_f32", "winograd_f32", "attention_f32", "depthwise_f32", "vmath")
_CALLS = {
    "convolution": "conv_f32(params, operands, scratch, begin, end, 5, 2, 1, 1);",
    "winograd": "winograd_f32(params, operands, scratch, begin, end, 5, 1, 1);",
    "attention": "attention_f32(params, operands, scratch, begin, end, 4, 2, 3, 3, 1, 1, 0);",
    "depthwise": "depthwise_f32(params, operands, scratch, begin, end, 3, 3, 1, 1, 4, 1, 0, 0);",
    "any_window": "depthwise_f32(params, operands, scratch, begin, end, 0, 0, 0, 1, 4, 1, 1, 1);",
    "math": "v_store(scratch, v_tanh(v_erf(v_log(v_rsqrt(v_load(params))))));",
    "copies": "for (; begin < end; begin++) ((char *)scratch)[begin] = ((char *)params)[begin];",
    "quotient": "*(int32_t *)scratch = (int32_t)begin / (int32_t)end;",
}
_FUNCTION = """__attribute__((visibility("default"))) void {name}(
    const void *params, void *const *operands, void *scratch, int64_t begin, int64_t end) {{
    {call}
}}
"""
_DEFINED = ("-Wl,-z,defs",)


def _source(extra: str = "") -> str:
    headers = "".join(f"#include <{name}.h>\n" for name in _HEADERS)
    return headers + "".join(_FUNCTION.format(name=n, call=c) for n, c in _CALLS.items()) + extra


@pytest.mark.parametrize("target", _TARGETS)
def test_kernels_leave_no_symbol_undefined(target: str) -> None:
    image = compile_unit(_source(), parse_target(target), flags=_DEFINED)
    assert image.startswith(b"\x7fELF")


def test_linker_would_notice_an_undefined_symbol() -> None:
    call = "extern void absent(void); absent();"
    extra = _FUNCTION.format(name="needy", call=call)
    with pytest.raises(CompileError):
        compile_unit(_source(extra), parse_target("x86_64"), flags=_DEFINED)
