"""The network as data: models, graphs, ops, tensors, and where each op comes from."""

from circlet.ir.dtype import DType
from circlet.ir.graph import Graph, Model, Op, RawAttrs, Shape, Signature, Sparsity, Tensor
from circlet.ir.origin import Origin, SourceOp
from circlet.ir.quant import BlockwiseQuant, OpaqueQuant, Quantization
from circlet.ir.requantization import Requantization

__all__ = [
    "BlockwiseQuant",
    "DType",
    "Graph",
    "Model",
    "Op",
    "OpaqueQuant",
    "Origin",
    "Quantization",
    "RawAttrs",
    "Requantization",
    "Shape",
    "Signature",
    "SourceOp",
    "Sparsity",
    "Tensor",
]
