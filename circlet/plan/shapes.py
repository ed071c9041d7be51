"""Fixes unknown sizes before compilation."""

from __future__ import annotations

from circlet.errors import LimitError
from circlet.ir import Graph, Shape, Tensor
from circlet.limits import Limits
from circlet.ops import find


def fix_shapes(graph: Graph, limits: Limits) -> None:
    """Give every tensor of a graph a concrete shape, from the inputs onwards.

    Unknown sizes of inputs take the file's default (1 where it has none); the records' inference
    carries them through the graph.

    Raises:
        LimitError: A tensor would be larger than the limits allow.
    """
    for tensor in graph.inputs:
        _fix(tensor, tensor.static_shape)
    for op in graph.ops:
        record = find(op.label)
        inferred = record.infer(op) if record else ()
        shapes = [known.shape for known in inferred] or [t.shape for t in op.outputs]
        for tensor, shape in zip(op.outputs, shapes, strict=False):
            _fix(tensor, shape if None not in shape else tensor.static_shape)
            _check_size(tensor, op.name, limits)
    for tensor in graph.inputs:
        _check_size(tensor, tensor.name, limits)


def _fix(tensor: Tensor, shape: Shape) -> None:
    tensor.shape = shape
    tensor.default_shape = None


def _check_size(tensor: Tensor, where: str, limits: Limits) -> None:
    if tensor.size_bytes > limits.tensor_bytes:
        raise LimitError(
            "a tensor is larger than allowed",
            where=where,
            why=f"{tensor.size_bytes} bytes, the limit is {limits.tensor_bytes}",
            fix="raise `tensor_bytes` of circlet.limits.Limits if this is meant",
        )
