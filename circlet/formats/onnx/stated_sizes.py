"""Sizes that a file leaves out, as far as they follow from what it states."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.errors import CircletError
from circlet.ir import Graph, Op, Tensor
from circlet.ops.build import infer_types


def complete_sizes(main: Graph) -> None:
    """Give the tensors of a graph, and of those that it runs, the sizes that operators infer.

    A graph that is run several times is looked at once, as it is run first.
    """
    done: set[Graph] = set()
    stack = [(main, iter(main.ops))]
    while stack:
        graph, ops = stack[-1]
        for op in ops:
            _enter(op, done)
            inner = next((region for region in op.regions if region not in done), None)
            if inner is not None:
                done.add(inner)
                stack += [(graph, iter([op])), (inner, iter(inner.ops))]
                break
            _infer(op)
        else:
            stack.pop()


def _infer(op: Op) -> None:
    try:
        types = infer_types(op)
    except (CircletError, ValueError, LookupError, TypeError, ArithmeticError):
        return  # what is wrong is said where it is written
    for tensor, inferred in zip(op.outputs, types, strict=False):
        if not inferred.has_rank:
            continue
        if not tensor.has_rank or (None in tensor.shape and None not in inferred.shape):
            tensor.shape, tensor.has_rank = inferred.shape, True
            tensor.default_shape = None


def _enter(op: Op, done: set[Graph]) -> None:
    """Tell graphs that an operator runs how many axes their inputs have; a loop may grow them."""
    given: Sequence[Tensor | None] = op.inputs[1:] if op.kind == "IF" else op.inputs
    for region in op.regions:
        if region in done:
            continue
        for tensor, source in zip(region.inputs, given, strict=False):
            if source is None or tensor.has_rank or not source.has_rank:
                continue
            known = source.shape if op.kind == "IF" else (None,) * len(source.shape)
            tensor.shape, tensor.has_rank = known, True
