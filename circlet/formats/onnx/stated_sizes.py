"""Sizes that a file leaves out, as far as they follow from what it states."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.errors import CircletError
from circlet.ir import Graph, Op, Tensor
from circlet.ops.build import infer_types


def complete_sizes(graph: Graph) -> None:
    """Give the tensors of a graph, and of those that it runs, the sizes that operators infer."""
    for op in graph.ops:
        _enter(op)
        for region in op.regions:
            complete_sizes(region)
        try:
            types = infer_types(op)
        except (CircletError, ValueError, IndexError):  # what is wrong is said where it is written
            continue
        for tensor, inferred in zip(op.outputs, types, strict=False):
            if not inferred.has_rank:
                continue
            if not tensor.has_rank or (None in tensor.shape and None not in inferred.shape):
                tensor.shape, tensor.has_rank = inferred.shape, True
                tensor.default_shape = None


def _enter(op: Op) -> None:
    """Tell graphs that an operator runs how many axes their inputs have; a loop may grow them."""
    given: Sequence[Tensor | None] = op.inputs[1:] if op.kind == "IF" else op.inputs
    for region in op.regions:
        for tensor, source in zip(region.inputs, given, strict=False):
            if source is None or tensor.has_rank or not source.has_rank:
                continue
            known = source.shape if op.kind == "IF" else (None,) * len(source.shape)
            tensor.shape, tensor.has_rank = known, True
