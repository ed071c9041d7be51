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
    "block_q4",
    "conv_direct",
    "detection",
    "elementwise",
    "fft",
    "float_computed",
    "float_conv",
    "float_depthwise",
    "gather",
    "matmul",
    "mediapipe",
    "norm",
    "pool",
    "q8_computed",
    "q8_conv",
    "q8_depthwise",
    "q8_hybrid",
    "quantize",
    "recurrent",
    "reduce",
    "resize",
    "signal",
    "softmax",
)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="GCC is not installed")
@pytest.mark.parametrize("family", FAMILIES)
def test_gcc_compiles_the_kernels_of(family: str, tmp_path: Path) -> None:
    environment = {**os.environ, "CIRCLET_CC": "gcc", "CIRCLET_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-x", str(HERE / f"test_{family}.py")]
    command += ["-k", "not generic", "-p", "no:cacheprovider"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
