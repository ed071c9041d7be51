"""The numpy backend: runs any op that has a record, exactly and slowly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from circlet.errors import BackendError, CircletError
from circlet.ir import Graph, Op, Tensor
from circlet.ops import get, unsupported_reason
from circlet.placement.interface import Reason, Supported


class ReferenceBackend:
    """Evaluates ops by their records."""

    name = "reference"

    def supports(self, op: Op) -> Supported | Reason:
        """Every op whose record covers its types."""
        reason = unsupported_reason(op)
        return Supported("numpy") if reason is None else Reason(reason)


def evaluate_graph(
    graph: Graph, inputs: Sequence[np.ndarray], before_op: Callable[[], None] = lambda: None
) -> list[np.ndarray]:
    """Run a graph op by op on numpy arrays; the outputs in the graph's order.

    `before_op` is called ahead of each op and may raise to stop the run.

    Raises:
        BackendError: An op failed; the message names it.
    """
    values = dict(zip(graph.inputs, inputs, strict=True))
    last_use = {t: index for index, op in enumerate(graph.ops) for t in op.inputs if t is not None}
    keep = set(graph.outputs)
    for index, op in enumerate(graph.ops):
        before_op()
        results = _evaluate(op, values)
        values.update(zip(op.outputs, results, strict=True))
        for tensor in op.inputs:
            if tensor in values and last_use.get(tensor) == index and tensor not in keep:
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
