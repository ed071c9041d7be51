"""Operators that run graphs."""

from __future__ import annotations

from circlet.formats.onnx.graph_of import branches
from circlet.formats.onnx.node import Node
from circlet.formats.onnx.table import importer
from circlet.ir import Tensor


@importer("If")
def _if(node: Node) -> list[Tensor]:
    """IF, whose branches are given what they read of the graph around them."""
    graphs, captured = branches(node, ("then_branch", "else_branch"))
    condition = node[0]
    if condition.shape != ():
        condition = node.reshape(condition, ())
    dtypes = [tensor.dtype for tensor in graphs[0].outputs]
    return node.many("IF", [condition, *captured], None, dtypes, regions=graphs)
