"""Runs a graph by the numpy semantics of its operators' records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from circlet.errors import BackendError, CircletError
from circlet.ir import Graph, Op, Tensor
from circlet.ops.record import get
from circlet.ops.state import initial_value, split_results, variables


def evaluate_graph(
    graph: Graph, inputs: Sequence[np.ndarray], before_op: Callable[[], None] = lambda: None
) -> list[np.ndarray]:
    """Run a graph op by op on numpy arrays; the outputs in the graph's order.

    `before_op` is called ahead of each op and may raise to stop the run. Variable tensors among
    the inputs are updated in place; others start at their initial value.

    Raises:
        BackendError: An op failed; the message names it.
    """
    values = {tensor: initial_value(tensor) for tensor in variables(graph)}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    last_use = {t: index for index, op in enumerate(graph.ops) for t in op.inputs if t is not None}
    keep = set(graph.outputs)
    for index, op in enumerate(graph.ops):
        before_op()
        results, updates = split_results(op, _evaluate(op, values))
        values.update(zip(op.outputs, results, strict=True))
        for variable, value in updates:
            np.copyto(values[variable], value)
        for tensor in dict.fromkeys(t for t in op.inputs if t in values):
            if tensor is not None and last_use[tensor] == index and tensor not in keep:
                del values[tensor]
    return [_value(tensor, values) for tensor in graph.outputs]


def _evaluate(op: Op, values: Mapping[Tensor, np.ndarray]) -> list[np.ndarray]:
    arrays = [None if tensor is None else _value(tensor, values) for tensor in op.inputs]
    try:
        with np.errstate(all="ignore"):
            return get(op).evaluate(op, arrays)
    except CircletError:
        raise
    except (ValueError, IndexError, TypeError, FloatingPointError, MemoryError) as error:
        raise BackendError(
            f"{op.label} failed in the reference backend", where=op.name, why=str(error)
        ) from error


def _value(tensor: Tensor, values: Mapping[Tensor, np.ndarray]) -> np.ndarray:
    if tensor.data is not None:
        return tensor.data
    return values[tensor]
