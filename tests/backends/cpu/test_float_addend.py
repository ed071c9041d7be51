"""The convolution kernel's addend, called directly: what a fused residual connection runs."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from circlet.backends.cpu.abi import params_bytes, params_dtype
from circlet.backends.cpu.lowering import ParamValue, vector_bytes
from circlet.backends.cpu.toolchain import KERNELS_DIR, compile_unit
from circlet.target.targets import parse_target
from tests.backends.cpu.harness import TARGETS, runnable

_PIXELS, _DEPTH, _FILTERS = 7, 5, 19
_SOURCE = """#include <conv_f32.h>
__attribute__((visibility("default"))) void kernel(
    const void *params, void *const *operands, void *scratch, int64_t begin, int64_t end) {
    conv_f32(params, operands, scratch, begin, end, 3, %d, %d, 1);
}
"""


def _params(blocks: int, added: int) -> dict[str, ParamValue]:
    tiles = -(-_PIXELS // 3)
    strides = {"in_pixel": _DEPTH, "out_pixel": _FILTERS, "add_pixel": _FILTERS + 4}
    window = {"tap_rows": 1, "tap_runs": 1, "run": _DEPTH}
    work = {"width": _PIXELS, "height": 1, "row_tiles": tiles, "tiles": tiles}
    dealt = {"task_tiles": 1, "joined": 1}
    channels = {"blocks": blocks, "group_blocks": blocks, "group_channels": _FILTERS}
    channels["add_channels"] = added
    return {**strides, **window, **work, **dealt, **channels, "low": 0.0, "high": 6.0}


@pytest.mark.parametrize(("vectors", "half"), [(1, 0), (2, 0), (2, 1), (1, 1)])
@pytest.mark.parametrize("added", [0, 3, 16, _FILTERS])
@pytest.mark.parametrize("name", TARGETS)
def test_addend_joins_before_the_activation(
    name: str, added: int, vectors: int, half: int, tmp_path: Path
) -> None:
    if runnable(name) is None:
        pytest.skip(f"this CPU cannot run {name}")
    target = parse_target(name)
    width = vector_bytes(target) // 4 * vectors - vector_bytes(target) // 8 * half
    blocks = -(-_FILTERS // width)
    random = np.random.default_rng(1)
    image, weights, addend = (
        random.standard_normal(shape).astype(np.float32)
        for shape in ((_PIXELS, _DEPTH), (1 + _DEPTH, blocks * width), (_PIXELS, _FILTERS + 4))
    )
    packed = np.ascontiguousarray(weights.reshape(-1, blocks, width).transpose(1, 0, 2))
    result = np.full((_PIXELS, _FILTERS), np.nan, np.float32)
    path = tmp_path / "unit.so"
    path.write_bytes(compile_unit(_SOURCE % (vectors, half), target))
    pointers = (array.ctypes.data for array in (image, packed, result, addend))
    operands = (ctypes.c_void_p * 4)(*pointers)
    header = (KERNELS_DIR / "conv_f32.h").read_text(encoding="utf-8")
    layout = params_dtype(header, "conv_f32_params", KERNELS_DIR)
    params = params_bytes(layout, **_params(blocks, added))
    tasks = ctypes.c_int64(3 * blocks)
    ctypes.CDLL(str(path)).kernel(params, operands, None, ctypes.c_int64(0), tasks)
    sums = (weights[0] + image @ weights[1:])[:, :_FILTERS]
    sums[:, :added] += addend[:, :added]
    np.testing.assert_allclose(result, np.clip(sums, 0, 6), rtol=1e-5, atol=1e-6)
