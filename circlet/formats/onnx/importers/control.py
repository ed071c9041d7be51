"""Operators that run graphs."""

from __future__ import annotations

from circlet.formats.onnx.graph_of import branches
from circlet.formats.onnx.node import Node
from circlet.formats.onnx.table import importer
from circlet.ir import Tensor


@importer("If")
def _if(node: Node) -> list[Tensor]:
    """IF, whose branches are given what they read of the graph around them."""
    condition = node[0]
    if condition.data is not None:
        chosen = "then_branch" if condition.data.any() else "else_branch"
        ops, results = node.graph.inlined(node.attributes[chosen])
        node.ops += ops
        return results
    graphs, captured = branches(node, ("then_branch", "else_branch"))
    if condition.shape != ():
        condition = node.reshape(condition, ())
    dtypes = [tensor.dtype for tensor in graphs[0].outputs]
    return node.many("IF", [condition, *captured], None, dtypes, regions=graphs)
