"""FLOAT16 and BFLOAT16 operands for importers that take FLOAT32 ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import Import
from circlet.ir import DType, Tensor
from circlet.ir.builder import constant
from circlet.ops.onnx.record import PREFIX, OnnxAttrs

OTHER_TYPES = "no record takes operands of these types"
# Kinds that state element types.
TYPED = frozenset({"BitCast", "Cast", "CastLike"})
_CODES = {DType.FLOAT16: 10, DType.BFLOAT16: 16}  # of onnx.TensorProto.DataType


class Halves:
    """The values of half precision of a graph that are known as FLOAT32, too.

    What half precision would round between two nodes stays as it is; results that are kept as
    FLOAT16 are rounded once.
    """

    def __init__(self) -> None:
        self._wide: dict[Tensor, Tensor] = {}

    def are_wide(self, tensors: Iterable[Tensor | None]) -> bool:
        """Whether any of some values is known as FLOAT32."""
        return not self._wide.keys().isdisjoint(tensors)

    def widened(self, function: Import) -> Import:
        """An importer over FLOAT32 operands for one over FLOAT16 or BFLOAT16 ones."""

        def run(node: Node) -> Tensor | list[Tensor]:
            given = node.inputs
            half = next((t.dtype for t in given if t is not None and t.dtype in _CODES), None)
            other = any(t is not None and t.dtype.is_small and t.dtype not in _CODES for t in given)
            if half is None or other or node.kind in TYPED:
                raise NotLoweredError(OTHER_TYPES)
            node.inputs = [self._widen(node, t) for t in given]
            try:
                made = function(node)
            finally:
                node.inputs = given
            results = made if isinstance(made, list) else [made]
            return [self._narrow(node, tensor, half) for tensor in results]

        return run

    def _widen(self, node: Node, tensor: Tensor | None) -> Tensor | None:
        if tensor is None or tensor.dtype not in _CODES:
            return tensor
        known = self._wide.get(tensor)
        if known is None and tensor.dtype is DType.FLOAT16:
            return node.op("DEQUANTIZE", [tensor], None, DType.FLOAT32)
        if known is None:
            known = self._wide[tensor] = _wide_copy(node, tensor)
        return known

    def _narrow(self, node: Node, tensor: Tensor, half: DType) -> Tensor:
        if tensor.dtype is not DType.FLOAT32:
            return tensor
        if half is DType.FLOAT16:
            made = node.cast(tensor, half)
        else:
            attrs = OnnxAttrs((("to", _CODES[half]),), node.opset)
            made = node.op("CUSTOM", [tensor], attrs, half, f"{PREFIX}Cast")
        self._wide[made] = tensor
        return made


def _wide_copy(node: Node, tensor: Tensor) -> Tensor:
    """A BFLOAT16 tensor as FLOAT32, of which its elements are the upper half."""
    if tensor.data is None:
        attrs = OnnxAttrs((("to", 1),), node.opset)
        return node.op("CUSTOM", [tensor], attrs, DType.FLOAT32, f"{PREFIX}Cast")
    bits = tensor.data.view(np.uint16).astype(np.uint32) << 16
    return constant(tensor.name, bits.view(np.float32).reshape(tensor.static_shape))
