"""Vectors that list sizes, and state of themselves that they are longer than any memory."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import DType, Tensor
from circlet.ops.build import builder
from tests import child

pytest.importorskip("onnx", reason="the package onnx is not installed")

_BYTES = 2 << 30
_PROGRAM = """
import circlet
from onnx import TensorProto, helper
KINDS = {
    "ConstantOfShape": "n", "Expand": "xn", "Reshape": "xn", "AffineGrid": "xn",
    "MaxUnpool": "xmn", "Add": "nn", "Unsqueeze": "xn",
}
LONG = 2**31 - 1
ends = [("x", 1, [1, 1, 4, 4]), ("m", 7, [1, 1, 4, 4]), ("v", 7, [LONG])]
inputs = [helper.make_tensor_value_info(*end) for end in ends]
output = helper.make_empty_tensor_value_info("y")
cast = helper.make_node("Cast", ["v"], ["n"], to=TensorProto.INT64)
for kind, operands in KINDS.items():
    more = {"kernel_shape": [2, 2]} if kind == "MaxUnpool" else {}
    node = helper.make_node(kind, [*operands], ["y"], **more)
    graph = helper.make_graph([cast, node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    try:
        circlet.load(model.SerializeToString())
        print(kind, "read")
    except circlet.CircletError as error:
        print(kind, error.code)
"""


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))


def test_a_vector_of_sizes_takes_no_memory_for_the_length_that_it_states() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=child.environment(OPENBLAS_NUM_THREADS="1"),
        preexec_fn=limit_memory,
        capture_output=True,
        text=True,
        check=False,
    )
    ends = dict(line.split() for line in done.stdout.splitlines())
    assert len(ends) == 7, done.stderr
    assert ends.pop("Add") == "read"
    assert {*ends.values()} <= {"E-FORMAT", "E-GRAPH"}, ends


@pytest.mark.parametrize("kind", ["FILL", "BROADCAST_TO", "RESHAPE"])
def test_more_sizes_than_arrays_have_are_refused(kind: str) -> None:
    b = builder()
    x, short, long = (b.input(f"x{n}", DType.INT32, (n,)) for n in (1, 64, 65))
    one = b.constant("one", np.array(1, np.int32))

    def made(sizes: Tensor) -> Tensor:
        return b.op(kind, [sizes, one] if kind == "FILL" else [x, sizes])

    assert made(short).shape == (None,) * 64
    with pytest.raises(GraphError, match="more sizes are listed"):
        made(long)
