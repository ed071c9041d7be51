"""Random numbers: those of Circlet's generator, which are not ONNX Runtime's."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import scaled
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.random import RandomAttrs, state_variable

_FLOAT = 1  # its number in ONNX


def _drawn(node: Node, record: str, sizes: Tensor) -> Tensor:
    """FLOAT32 numbers; from a seed on, the same in each session, but in graphs that others run."""
    seed = int(np.float32(node.attributes.get("seed", 0)).view(np.int32))
    attrs = RandomAttrs(0 if node.graph.outer else seed)
    operands = [node.cast(sizes, DType.INT32)]
    if attrs.generator is not None:
        operands.append(state_variable(node.name, attrs.generator))
    return node.op(record, operands, attrs, DType.FLOAT32)


def _sizes(node: Node) -> Tensor:
    """The sizes of the operand, or those that the node states, for results of FLOAT32."""
    is_like = node.kind.endswith("Like")
    other = is_like and node[0].dtype is not DType.FLOAT32
    if node.whole("dtype", 0 if other else _FLOAT) != _FLOAT:
        raise NotLoweredError("only FLOAT32 numbers are drawn")
    return node.sizes(node[0]) if is_like else node.const(node.ints("shape") or (), np.int32)


@importer("RandomNormal")
@importer("RandomNormalLike")
def _normal(node: Node) -> Tensor:
    made = _drawn(node, "RANDOM_STANDARD_NORMAL", _sizes(node))
    mean = node.const(np.float32(node.real("mean", 0)))
    return node.op("ADD", [scaled(node, made, node.real("scale", 1)), mean])


@importer("RandomUniform")
@importer("RandomUniformLike")
def _uniform(node: Node) -> Tensor:
    low, high = node.real("low", 0), node.real("high", 1)
    made = _drawn(node, "RANDOM_UNIFORM", _sizes(node))
    return node.op("ADD", [scaled(node, made, high - low), node.const(np.float32(low))])
