"""Processes that are held to fewer instructions than this CPU has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench.held import cleared, held_to
from circlet.errors import TargetError
from circlet.target.host import host_words
from circlet.target.targets import native_target, parse_target

# numpy asks CPUID itself, when it is imported.
_ASKED = """
from numpy._core._multiarray_umath import __cpu_features__ as known
print(*(name for name, has in known.items() if has))
"""


def _seen() -> set[str]:
    return set(
        subprocess.run(
            [sys.executable, "-c", _ASKED], check=True, capture_output=True, text=True
        ).stdout.split()
    )


def test_what_a_target_lacks_is_cleared_and_what_it_has_is_not() -> None:
    masks = dict(part.split("=") for part in cleared(parse_target("x86_64_v3")).split(","))
    assert int(masks["7.0.1"], 16) >> 16 & 1  # AVX-512 Foundation, EBX
    assert not int(masks["7.0.1"], 16) >> 5 & 1  # AVX2
    with_vnni = cleared(parse_target("x86_64_v4+avx512vnni")).split(",")
    masks = dict(part.split("=") for part in with_vnni)
    assert "7.0.1" not in masks
    assert not int(masks["7.0.2"], 16) >> 11 & 1  # VNNI, ECX
    assert int(masks["7.0.3"], 16) >> 24 & 1  # AMX tiles, EDX


@pytest.mark.skipif(
    "cpuid_fault" not in host_words() or not native_target().has("avx512f"),
    reason="this CPU has no AVX-512, or cannot let CPUID fault",
)
def test_held_processes_see_the_older_processor_and_others_do_not() -> None:
    assert "AVX512F" in _seen()
    with held_to(parse_target("x86_64_v3")):
        seen = _seen()
    assert "AVX2" in seen
    assert "AVX512F" not in seen
    assert "LD_PRELOAD" not in os.environ
    assert "AVX512F" in _seen()


def test_the_native_target_holds_nobody_and_others_may_be_refused() -> None:
    with held_to(native_target()):
        assert "CPUID_CLEAR" not in os.environ
    with pytest.raises(TargetError, match="cannot be held"), held_to(parse_target("riscv64")):
        pass
