"""Constants, and nodes that pass a value on."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.node import Node
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor

_LISTS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


@importer("Constant")
def _constant(node: Node) -> Tensor:
    if "value" in node.attributes:
        return node.graph.state.store.tensor(node.attributes["value"], node.name)
    for name, dtype in _LISTS.items():
        if name in node.attributes:
            return node.const(node.attributes[name], dtype)
    raise node.wrong("a constant of this form is not read", ", ".join(node.attributes))


@importer("Identity")
def _identity(node: Node) -> Tensor:
    return node[0]


@importer("Dropout")
def _dropout(node: Node) -> list[Tensor]:
    """Nothing is dropped outside of training; the mask keeps all."""
    training = node.known(2)
    if node.optional(2) is not None and (training is None or bool(training.any())):
        raise node.wrong("Dropout in training mode is not run")
    if not node.wants(1):
        return [node[0]]
    mask = DType.BOOL if node.opset >= 10 else node[0].dtype
    return [node[0], _filled(node, node.sizes(node[0]), np.ones((), mask.numpy))]


def _filled(node: Node, sizes: Tensor, value: np.ndarray) -> Tensor:
    fill = node.const(value)
    return node.op("FILL", [sizes, fill], dtype=fill.dtype)


@importer("ConstantOfShape")
def _constant_of_shape(node: Node) -> Tensor:
    value = np.zeros(1, np.float32)
    if "value" in node.attributes:
        value = node.graph.state.store.array(node.attributes["value"], node.name)
    if value.size != 1:
        raise node.wrong("the value of ConstantOfShape is not one element")
    return _filled(node, node[0], value.reshape(()))


@importer("Shape")
def _shape(node: Node) -> Tensor:
    sizes, rank = node.sizes(node[0]), node.rank(node[0])
    start, end, _ = slice(node.whole("start"), node.whole("end", rank)).indices(rank)
    if (start, end) == (0, rank):
        return sizes
    count = max(0, end - start)
    return node.op("SLICE", [sizes, node.const([start], np.int64), node.const([count], np.int64)])


@importer("Size")
def _size(node: Node) -> Tensor:
    axis = node.const([0], np.int32)
    from circlet.ops.reduce import ReducerAttrs

    return node.op("REDUCE_PROD", [node.sizes(node[0]), axis], ReducerAttrs(False))


@importer("Range")
def _range(node: Node) -> Tensor:
    return node.op("RANGE", [node[0], node[1], node[2]])
