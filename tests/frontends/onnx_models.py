"""Small .onnx networks for the tests of `InferenceSession`, as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

OPSET, IR_VERSION = 17, 8
# What the tests give the network `scaled`, and its first output.
ROWS = np.array([[-1, 2], [3, -4], [5, 6]], np.float32)
Y = ROWS * np.array([2, -1], np.float32)


def floats(name: str, shape: Sequence[object] | None) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Sequence[Any] = (),
    **facts: Any,
) -> ModelProto:
    graph = helper.make_graph(nodes, "tested", inputs, outputs, constants, doc_string="a graph")
    opsets = [helper.make_opsetid("", facts.pop("opset", OPSET))]
    opsets += [helper.make_opsetid(name, 1) for name in facts.pop("domains", ())]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, **facts)


def scaled() -> bytes:
    """x [batch, 2] -> "y" = x * factor, "z" = relu(y); factor [2] may be given anew."""
    factor = numpy_helper.from_array(np.array([2, -1], np.float32), "factor")
    proto = model(
        [helper.make_node("Mul", ["x", "factor"], ["y"]), helper.make_node("Relu", ["y"], ["z"])],
        [floats("x", ["batch", 2]), floats("factor", [2])],
        [floats("y", ["batch", None]), floats("z", None)],
        [factor],
        producer_name="tests",
        domain="circlet",
        model_version=7,
        doc_string="a model",
    )
    helper.set_model_props(proto, {"kind": "small"})
    return proto.SerializeToString()


def fixed() -> bytes:
    """x [3, 2] -> "y" = x * weight, with a constant that is no input."""
    weight = numpy_helper.from_array(np.arange(1, 7, dtype=np.float32).reshape(3, 2), "weight")
    nodes = [helper.make_node("Mul", ["x", "weight"], ["y"])]
    shapes = [floats("x", [3, 2])], [floats("y", [3, 2])]
    return model(nodes, *shapes, [weight]).SerializeToString()


def reshaped() -> bytes:
    """x [count] -> "y" [2, count / 2], which does not work for a count of 1."""
    sizes = numpy_helper.from_array(np.array([2, -1], np.int64), "sizes")
    nodes = [helper.make_node("Reshape", ["x", "sizes"], ["y"])]
    shapes = [floats("x", ["count"])], [floats("y", None)]
    return model(nodes, *shapes, [sizes]).SerializeToString()


def with_a_scalar() -> bytes:
    """x [2], s, a scalar -> "y" = x * s."""
    nodes = [helper.make_node("Mul", ["x", "s"], ["y"])]
    shapes = [floats("x", [2]), floats("s", [])], [floats("y", [2])]
    return model(nodes, *shapes).SerializeToString()


def rankless() -> bytes:
    """x of any shape -> "y" = relu(x)."""
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    return model(nodes, [floats("x", None)], [floats("y", None)]).SerializeToString()


def logical() -> bytes:
    """ "a", "b" [2, 2] -> "both", of truth values."""
    sides = [helper.make_tensor_value_info(name, TensorProto.BOOL, [2, 2]) for name in ("a", "b")]
    both = helper.make_tensor_value_info("both", TensorProto.BOOL, [2, 2])
    return model([helper.make_node("And", ["a", "b"], ["both"])], sides, [both]).SerializeToString()


def passed_through() -> bytes:
    """x [2] -> "y" = x + x, and x itself."""
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    return model(
        nodes, [floats("x", [2])], [floats("y", [2]), floats("x", [2])]
    ).SerializeToString()


def meaning() -> bytes:
    """x [rows, columns, 5], whose sizes say what they mean -> "y" = |x|."""
    shape = ["rows", "columns", 5]
    kinds = ["DATA_BATCH", "DATA_CHANNEL", ""]
    made = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape, shape_denotation=kinds)
    nodes = [helper.make_node("Abs", ["x"], ["y"])]
    return model(nodes, [made], [floats("y", shape)]).SerializeToString()


def broken(kind: str) -> bytes:
    """Networks that cannot be used, by what is wrong with them."""
    x, y = floats("x", [1]), floats("y", [1])
    if kind == "unknown operator":
        return model([helper.make_node("Nothing", ["x"], ["y"])], [x], [y]).SerializeToString()
    if kind == "unknown domain":
        node = helper.make_node("Nothing", ["x"], ["y"], domain="mine")
        return model([node], [x], [y], domains=["mine"]).SerializeToString()
    if kind == "types":
        wrong = helper.make_tensor_value_info("w", TensorProto.INT64, [1])
        return model(
            [helper.make_node("Add", ["x", "w"], ["y"])], [x, wrong], [y]
        ).SerializeToString()
    if kind == "missing value":
        return model([helper.make_node("Relu", ["w"], ["y"])], [x], [y]).SerializeToString()
    if kind == "operator set":
        node = helper.make_node("Relu", ["x"], ["y"])
        return model([node], [x], [y], opset=999).SerializeToString()
    return {"garbage": b"garbage", "nothing": b"", "half": scaled()[:60]}[kind]


def with_data_beside(folder: Path) -> Path:
    """The path of `fixed`, whose weight is stored in "weight.bin" beside it."""
    path = folder / "beside.onnx"
    proto = ModelProto.FromString(fixed())
    weight = proto.graph.initializer[0]
    (folder / "weight.bin").write_bytes(weight.raw_data)
    set_external_data(weight, "weight.bin", 0, len(weight.raw_data))
    weight.ClearField("raw_data")
    path.write_bytes(proto.SerializeToString())
    return path
