"""Rows next to a tie when they become 8-bit with a zero point: one form gives LiteRT's."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.formats import dumps
from circlet.ir import DType, Model, Quantization
from circlet.ops.build import builder
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.backends.cpu.harness import TARGETS, check_native, runnable

# Of the first three the zero point decides when it is added before rounding, of the others the
# step, when the width of the range is not rounded to float32 first.
ROWS = np.array(
    [
        [-0.67, -0.067, -0.382],
        [-0.874, -0.678, 2.186],
        [1.394, 2.85, 0.855],
        [0.336, 0.442, -2.21],
        [0.34, -0.26, 0.041],
        [1.156, 2.329, -1.781],
    ],
    np.float32,
)


def quantised_rows() -> Model:
    """A layer whose output is its quantised input."""
    b = builder()
    x = b.input("x", DType.FLOAT32, ROWS.shape)
    w = b.constant("w", np.eye(ROWS.shape[1], dtype=np.int8), Quantization.per_tensor(1.0))
    attrs = FullyConnectedAttrs(asymmetric_quantize_inputs=True)
    return b.output(b.op("FULLY_CONNECTED", [x, w, None], attrs, name="y")).model()


def test_the_record_rounds_as_litert_does() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is the judge")
    model = quantised_rows()
    peer = litert.Interpreter(
        model_content=bytes(dumps(model, "tflite")),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
    )
    peer.allocate_tensors()
    peer.set_tensor(peer.get_input_details()[0]["index"], ROWS)
    peer.invoke()
    wanted = peer.get_tensor(peer.get_output_details()[0]["index"])
    (own,) = evaluate_graph(model.main, [ROWS])
    np.testing.assert_allclose(own, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", TARGETS)
def test_native_code_rounds_as_the_record_does(name: str) -> None:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    check_native(quantised_rows().main, [ROWS], target, tolerance=1e-6)
