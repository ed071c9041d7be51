"""Fixed-point functions of all 16-bit values against the ones of the records."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from circlet.backends.cpu.toolchain import compile_unit
from circlet.ops import gemmlowp16
from circlet.target.targets import parse_target
from tests.backends.cpu.harness import AND_V4, runnable

_BITS = range(5)
_SOURCE = """#include <gemmlowp16.h>
#define EACH(name, call)                                                            \\
    __attribute__((visibility("default"))) void name(const int32_t *from, int32_t *to) { \\
        for (int64_t i = 0; i < 65536; i += 2 * CIRCLET_LANES) {                    \\
            vi low = v_load_i32(from + i), high = v_load_i32(from + i + CIRCLET_LANES); \\
            vi16 x = v_saturate_2_i16(low, high), y = call;                         \\
            v_store_i32(to + i, v_unpack_i16(y, 0));                                \\
            v_store_i32(to + i + CIRCLET_LANES, v_unpack_i16(y, 1));                \\
        }                                                                           \\
    }
EACH(logistic, g16_logistic(x))
"""


@pytest.mark.parametrize("name", AND_V4)
def test_functions_of_all_values_equal_the_records(name: str, tmp_path: Path) -> None:
    if runnable(name) is None:
        pytest.skip(f"this CPU cannot run {name}")
    source = _SOURCE + "".join(f"EACH(tanh_{bits}, g16_tanh(x, {bits}))\n" for bits in _BITS)
    path = tmp_path / "unit.so"
    path.write_bytes(compile_unit(source, parse_target(name)))
    unit, raw = ctypes.CDLL(str(path)), np.arange(-(1 << 15), 1 << 15, dtype=np.int32)
    wanted = {f"tanh_{bits}": gemmlowp16.tanh(raw.astype(np.int16), bits) for bits in _BITS}
    wanted["logistic"] = gemmlowp16.logistic(raw.astype(np.int16))
    for function, values in wanted.items():
        got = np.empty_like(raw)
        unit[function](*(ctypes.c_void_p(array.ctypes.data) for array in (raw, got)))
        np.testing.assert_array_equal(got, values, err_msg=function)
