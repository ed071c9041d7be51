"""Kernels also compile with GCC, stricter with types of vectors, and give the same answers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FAMILIES = (
    "attention",
    "bf16",
    "block_bits",
    "conv_direct",
    "cross_sums",
    "detection",
    "elementwise",
    "fft",
    "float_computed",
    "float_conv",
    "float_depthwise",
    "float_groups",
    "float_winograd",
    "fully_connected_block_bits",
    "gather",
    "matmul",
    "matmul_f64",
    "mediapipe",
    "norm",
    "pool",
    "q8_computed",
    "q8_conv",
    "q8_depthwise",
    "q8_groups",
    "q8_hybrid",
    "q8_pairs",
    "quantize",
    "recurrent",
    "recurrent_cells",
    "reduce",
    "resize",
    "signal",
    "softmax",
)

# Of each way to compile C that GCC could take otherwise, one; the others before a release.
COMMON = (
    "elementwise",
    "float_conv",
    "gather",
    "pool",
    "q8_conv",
    "q8_depthwise",
    "quantize",
    "recurrent",
    "softmax",
)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="GCC is not installed")
@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param("not generic and not v3", id="native", marks=pytest.mark.slow),
        pytest.param("v3", id="x86_64_v3", marks=pytest.mark.release),
    ],
)
@pytest.mark.parametrize(
    "family",
    [f if f in COMMON else pytest.param(f, marks=pytest.mark.release) for f in FAMILIES],
)
def test_gcc_compiles_the_kernels_of(family: str, chosen: str, tmp_path: Path) -> None:
    environment = {**os.environ, "CIRCLET_CC": "gcc", "CIRCLET_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-x", str(HERE / f"test_{family}.py")]
    command += ["-k", chosen, "-p", "no:cacheprovider"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    none_for_it = 5 if chosen == "v3" else 0  # some families have no cases for that target
    assert done.returncode in (0, none_for_it), done.stdout[-4000:]
