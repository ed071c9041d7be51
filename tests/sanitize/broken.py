"""Runs a custom operator with a fault in its C, as the worker runs networks; for tests of both.

python -m tests.sanitize.broken FAULT MODE NOTE
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import circlet
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.ops.user import UserAttrs
from tests.sanitize.worker import install, speaker

# Each is the body of a loop over x[0] .. x[6], whose results go to y.
FAULTS = {
    "none": "y[i] = x[i];",
    "read_behind": "y[i] = x[i + 1];",
    "write_behind": "y[i + 1] = x[i];",
    "read_before": "y[i] = x[i - 1];",
    "overflow": "y[i] = (float)((int)x[i] + 2147483647);",
    "shift": "y[i] = (float)(1 << (int)(x[i] * 32.0f));",
}
_SOURCE = """
static void faulty(const void *const *inputs, void *const *outputs, const int64_t *elements,
                   const void *options, int64_t options_bytes) {{
    const volatile float *x = inputs[0];
    volatile float *y = outputs[0];
    for (int64_t i = 0; i < elements[0]; i++) {{ {body} }}
}}
"""


def _network() -> bytes:
    """RELU, the operator "faulty", RELU, over seven numbers."""
    b = builder()
    x = b.op("RELU", [b.input("x", DType.FLOAT32, (7,))], name="first")
    x = b.op("CUSTOM", [x], UserAttrs(b""), name="faulty", shape=(7,), custom_code="Faulty")
    return dumps(b.output(b.op("RELU", [x], name="last")).model(), "tflite")


def _like_input(inputs: Sequence[Any], options: object) -> list[Any]:
    return [(inputs[0].dtype, inputs[0].shape)]


def _copy(arrays: Sequence[Any], options: object) -> Any:
    return np.array(arrays[0])


def main() -> None:
    """Run the network once on ones."""
    fault, mode, note = sys.argv[1:]
    install(mode, speaker(Path(note)))
    source = _SOURCE.format(body=FAULTS[fault])
    circlet.register_op("Faulty", _like_input, _copy, c_source=source, c_function="faulty")
    session = circlet.Session(_network(), strict=True, threads=1)
    session.run([np.ones(7, np.float32)])


if __name__ == "__main__":
    main()
