"""Copies of graphs that can be rewritten while the first stays as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from circlet.ir.graph import Graph, Model, Op, Signature, Tensor
from circlet.ir.quant import BlockwiseQuant, Quantization
from circlet.ir.regions import reachable

Node = TypeVar("Node", Model, Graph, Op, Tensor)


def copy_of_main(model: Model) -> Model:
    """A model of the main graph and all graphs that it runs, with ops and tensors of its own.

    Constants are the same objects in both; everything else of the model is left out but for what
    it says of itself.
    """
    made = _twin(model)
    copies = _copied(reachable(model.main), {})
    made.graphs, made.signatures = list(copies.values()), []
    return made


def copy_of(model: Model) -> Model:
    """A whole model with graphs, ops and tensors of its own, and signatures of these.

    Constants have the same elements, which are not copied.
    """
    made = _twin(model)
    used = (tensor for graph in model.graphs for tensor in graph.used_tensors())
    tensors = {tensor: _twin(tensor) for tensor in used}
    for twin in tensors.values():
        twin.quant = _copy_quant(twin.quant, tensors)
    copies = _copied(model.graphs, tensors)

    def renamed(named: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: _copy(tensor, tensors) for name, tensor in named.items()}

    made.graphs = list(copies.values())
    made.signatures = [
        Signature(s.key, copies[s.graph], renamed(s.inputs), renamed(s.outputs))
        for s in model.signatures
    ]
    return made


def copy_of_graph(graph: Graph) -> Graph:
    """A graph with ops and tensors of its own.

    Constants, variables and the graphs that its ops run are the same objects in both.
    """
    twin = _twin(graph)
    variables = {tensor: tensor for tensor in graph.used_tensors() if tensor.is_variable}
    _fill(twin, variables, {inner: inner for op in graph.ops for inner in op.regions})
    return twin


def _copied(graphs: list[Graph], tensors: dict[Tensor, Tensor]) -> dict[Graph, Graph]:
    """Copies of graphs by what they are copies of, with the copies of tensors that are given."""
    copies = {graph: _twin(graph) for graph in graphs}
    for twin in copies.values():
        _fill(twin, tensors, copies)
    return copies


def _fill(twin: Graph, tensors: dict[Tensor, Tensor], graphs: dict[Graph, Graph]) -> None:
    """Have a graph that holds the ops and tensors of another hold copies of them."""
    twin.ops = [_copy_op(op, tensors, graphs) for op in twin.ops]
    twin.inputs = _copies(twin.inputs, tensors)
    twin.outputs = _copies(twin.outputs, tensors)
    twin.tensors = _copies(twin.tensors, tensors)


def _copy_op(op: Op, tensors: dict[Tensor, Tensor], graphs: dict[Graph, Graph]) -> Op:
    twin = _twin(op)
    twin.inputs = [None if t is None else _copy(t, tensors) for t in op.inputs]
    twin.outputs = _copies(op.outputs, tensors)
    twin.intermediates = _copies(op.intermediates, tensors)
    twin.regions = [graphs[region] for region in op.regions]
    return twin


def _copies(given: list[Tensor], tensors: dict[Tensor, Tensor]) -> list[Tensor]:
    return [_copy(tensor, tensors) for tensor in given]


def _copy(tensor: Tensor, tensors: dict[Tensor, Tensor]) -> Tensor:
    twin = tensors.get(tensor)
    if twin is not None:
        return twin
    if tensor.data is not None:
        return tensor
    twin = tensors[tensor] = _twin(tensor)
    return twin


def _copy_quant(quant: Quantization | None, tensors: dict[Tensor, Tensor]) -> Quantization | None:
    details = None if quant is None else quant.details
    if quant is None or not isinstance(details, BlockwiseQuant):
        return quant
    scales, *zeros = (tensors[tensor] for tensor in details.tensors)
    blocks = BlockwiseQuant(scales, zeros[0] if zeros else None, details.block_size)
    return replace(quant, details=blocks)


def _twin(node: Node) -> Node:
    """Another object with the same fields, which are not copied; as `copy.copy`, but fast."""
    twin = object.__new__(type(node))
    vars(twin).update(vars(node))
    return twin
