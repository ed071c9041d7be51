"""The peaks that kernels are held against: no loop of the probe goes without its products."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from bench.steps import profile
from circlet.backends.cpu.profiling.peaks import PROBE
from circlet.backends.cpu.toolchain import compile_unit
from circlet.backends.profiled import LEVELS_BYTES, Peaks
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.target.targets import parse_target
from tests.windows import conv2d_attrs

_LABEL = re.compile(r"^(\.L\w+):")
_JUMP = re.compile(r"^\s+(?:j\w+|b\.\w+|cbn?z\s+\w+,)\s+(\.L\w+)\s*$")
_X86 = {"probe_fma": r"vfmadd", "probe_madd": r"vpmaddwd|vpdpwssd", "probe_dot": r"vpdpbusd"}
_ARM = {
    "probe_fma": "fmla",
    "probe_madd": "mul|mla",
    "probe_dot": "sdot",
    "probe_matrix": "smmla",
}


@cache
def assembly(target: str) -> str:
    text = PROBE.read_text(encoding="utf-8")
    return compile_unit(text, parse_target(target), flags=("-S",)).decode()


def loops(target: str, function: str) -> list[list[str]]:
    """The bodies of a function's innermost loops."""
    body = re.search(rf"^{function}:(.*?)^\s+\.size\s+{function}", assembly(target), re.M | re.S)
    assert body is not None
    lines = body[1].splitlines()
    labels = {found[1]: at for at, line in enumerate(lines) if (found := _LABEL.match(line))}
    jumps = ((at, _JUMP.match(line)) for at, line in enumerate(lines))
    spans = [(labels.get(jump[1], at), at) for at, jump in jumps if jump]
    spans = [(start, end) for start, end in spans if start < end]
    inner = [s for s in spans if not any(s != t and s[0] <= t[0] and t[1] <= s[1] for t in spans)]
    return [lines[start : end + 1] for start, end in inner]


def products(target: str, function: str, instruction: str) -> int:
    """How many products a turn of the function's only loop makes."""
    (loop,) = loops(target, function)
    return sum(bool(re.match(rf"\s+(?:{{vex}}\s+)?(?:{instruction})", line)) for line in loop)


@pytest.mark.parametrize(
    ("target", "functions", "chains"),
    [
        ("x86_64+v3", {"probe_fma", "probe_madd"}, 12),
        ("x86_64+v3+avxvnni", {"probe_fma", "probe_madd", "probe_dot"}, 12),
        ("x86_64+v4", {"probe_fma", "probe_madd"}, 24),
        ("x86_64+v4+avx512vnni", {"probe_fma", "probe_madd", "probe_dot"}, 24),
        ("aarch64+neon", {"probe_fma", "probe_madd"}, 12),
        ("aarch64+neon+i8mm", {"probe_fma", "probe_madd", "probe_dot", "probe_matrix"}, 12),
    ],
)
def test_every_product_is_made_in_the_loop(target: str, functions: set[str], chains: int) -> None:
    names = _ARM if target.startswith("aarch64") else _X86
    for function in functions:
        found = products(target, function, names[function])
        assert found >= chains and found % chains == 0, (function, found)


@pytest.mark.parametrize("target", ["x86_64+v3", "x86_64+v4", "aarch64+neon"])
def test_bytes_without_dot_products_are_multiplied_as_int16(target: str) -> None:
    product = (_ARM if target.startswith("aarch64") else _X86)["probe_madd"]
    made = products(target, "probe_madd", product)
    assert products(target, "probe_dot", product) == made > 0


def test_sums_of_vectors_without_fused_products_are_multiplied_in_the_loop() -> None:
    assert products("x86_64", "probe_fma", "mulps") % 12 == 0
    assert products("x86_64", "probe_fma", "mulps") > 0


def test_bandwidth_is_never_below_that_of_a_larger_working_set() -> None:
    falling = tuple(float(len(LEVELS_BYTES) - at) for at in range(len(LEVELS_BYTES)))
    dented = (falling[0], 0.5, *falling[2:])
    peaks = Peaks(1.0, 1.0, 1.0, 1.0, 1.0, dented, dented)
    assert peaks.bandwidth(1) == peaks.bandwidth(LEVELS_BYTES[0]) == falling[0]
    for size in LEVELS_BYTES:
        assert peaks.bandwidth(size) >= peaks.bandwidth(size + 1)
        assert peaks.bandwidth(size) >= dented[LEVELS_BYTES.index(size)]
    assert peaks.bandwidth(1 << 40) == falling[-1]


def bordered(filters: int) -> bytes:
    """A network of one convolution in floats with a window of 3 x 3 and its border."""
    b = builder()
    weights = b.constant("w", np.ones((filters, 3, 3, 16), np.float32))
    x = b.input("x", DType.FLOAT32, (1, 16, 16, 16))
    return dumps(
        b.output(b.op("CONV_2D", [x, weights], conv2d_attrs("SAME", 1, 1))).model(), "tflite"
    )


def test_calls_are_charged_with_what_they_do_and_no_more() -> None:
    found = profile(bordered(64), 1, 0.02)
    work = {row.work.kernel.partition("(")[0]: row.work for row in found.rows}
    assert work["fill_border"].data_bytes <= 4 * 16 * (18 * 18 + 18 - 16 * 16)
    assert 0.2 < work["winograd_f32"].made < 0.4
