"""A partition as a model of its own, for backends that run whole models."""

from __future__ import annotations

from circlet.ir import Graph, Model
from circlet.ir.regions import reachable
from circlet.plan.partition import Partition


def submodel(partition: Partition) -> Model:
    """A model whose main graph is the partition; ops and tensors are those of the network."""
    graph = Graph(partition.backend, [*partition.inputs], [*partition.outputs], [*partition.ops])
    intermediates = (tensor for op in graph.ops for tensor in op.intermediates)
    graph.tensors = list(dict.fromkeys([*graph.used_tensors(), *intermediates]))
    return Model(reachable(graph))
