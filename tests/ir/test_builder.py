from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import DType, Op, Origin
from circlet.ir.builder import Builder
from circlet.ops.opdef import NoAttrs, TensorType

pytestmark = pytest.mark.smoke


def test_ops_get_ascending_origins_named_after_their_output() -> None:
    b = Builder()
    x = b.input("x", DType.FLOAT32, (1, 4))
    y = b.op("RELU", [x], name="y", shape=(1, 4))
    b.op("TANH", [y], shape=(1, 4))
    origins = [op.origin.sources[0] for op in b.build().ops]
    assert [(source.id, source.name) for source in origins] == [(0, "y"), (1, "tanh_1")]


def test_given_origin_is_kept() -> None:
    b = Builder()
    x = b.input("x", DType.INT8, (2,))
    b.op("RELU", [x], shape=(2,), origin=Origin.of(7, "seven"))
    assert b.build().ops[0].name == "seven"


def test_every_tensor_is_listed_once_in_order() -> None:
    b = Builder()
    x = b.input("x", DType.FLOAT32, (2,))
    c = b.constant("c", np.ones(2, np.float32))
    y = b.op("ADD", [x, c], NoAttrs(), shape=(2,))
    assert b.output(y).build().tensors == [x, c, y]


def test_constants_are_read_only_views() -> None:
    data = np.ones(3, np.float32)
    tensor = Builder().constant("c", data)
    assert tensor.data is not None and np.shares_memory(tensor.data, data)
    assert not tensor.data.flags.writeable and data.flags.writeable


def test_inferred_output_type_is_used() -> None:
    def infer(op: Op) -> list[TensorType]:
        return [TensorType(DType.INT64, (len(op.inputs),))]

    b = Builder(infer=infer)
    x = b.input("x", DType.FLOAT32, (5,))
    y = b.op("ARG_MAX", [x])
    z = b.op("ARG_MAX", [x], dtype=DType.INT32)
    assert (y.dtype, y.shape, z.dtype) == (DType.INT64, (1,), DType.INT32)


def test_missing_shape_without_inference_is_refused() -> None:
    b = Builder()
    with pytest.raises(GraphError, match="needs an output shape"):
        b.op("RELU", [b.input("x", DType.FLOAT32, (1,))])


def test_model_signature_names_the_tensors() -> None:
    b = Builder()
    x = b.input("x", DType.FLOAT32, (2,))
    model = b.output(b.op("RELU", [x], name="y", shape=(2,))).model("serve", {"note": b"hi"})
    assert list(model.signatures[0].outputs) == ["y"]
    assert model.metadata["note"].tobytes() == b"hi"
