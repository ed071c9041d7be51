"""LSTM, GRU and RNN: records of their own, so that those of half precision are widened."""

from __future__ import annotations

from circlet.formats.onnx.attributes import stored_attributes
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.onnx.record import PREFIX, OnnxAttrs

_DATA_AND_WEIGHTS = range(3)


@importer("LSTM")
@importer("GRU")
@importer("RNN")
def _layer(node: Node) -> list[Tensor]:
    given = [node[index] for index in _DATA_AND_WEIGHTS]
    if any(t.dtype is not DType.FLOAT32 or not t.has_rank or len(t.shape) != 3 for t in given):
        raise NotLoweredError("it has other operands than FLOAT32 ones of three dimensions")
    attrs = OnnxAttrs(stored_attributes(node, node.graph.state.store), node.opset)
    dtypes = [DType.FLOAT32] * len(node.outputs)
    return node.many("CUSTOM", node.inputs, attrs, dtypes, f"{PREFIX}{node.kind}")
