"""Runs a graph by the numpy semantics of its operators' records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter_ns

import numpy as np

from circlet.errors import BackendError, CircletError, LimitError
from circlet.ir import DType, Graph, Op, Tensor
from circlet.limits import MemoryBudget
from circlet.ops.growth import needed_bytes
from circlet.ops.guard import Guard, current_guard, entered
from circlet.ops.opdef import get
from circlet.ops.parts import elementwise
from circlet.ops.state import initial_value, split_results, variables
from circlet.ops.strings import unpack_strings
from circlet.ops.work import FAILURES, work_at

# What a record's `evaluate` may raise of operands that its operator is not defined for.


def evaluate_graph(
    graph: Graph, inputs: Sequence[np.ndarray], guard: Guard | None = None
) -> list[np.ndarray]:
    """Run a graph op by op on numpy arrays; the outputs in the graph's order.

    The guard is that of the run in progress where none is given. Variable tensors among the
    inputs are updated in place; others start at their initial value.

    Raises:
        BackendError: An op failed; the message names it.
        LimitError: A limit of the guard was passed.
    """
    guard = guard or current_guard()
    with entered(guard):
        return _evaluate_ops(graph, inputs, guard)


def _evaluate_ops(graph: Graph, inputs: Sequence[np.ndarray], guard: Guard) -> list[np.ndarray]:
    living = [*variables(graph), *(tensor for tensor in graph.outputs if tensor.is_variable)]
    values = {tensor: initial_value(tensor) for tensor in living}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    last_use = {t: index for index, op in enumerate(graph.ops) for t in op.inputs if t is not None}
    keep = set(graph.outputs)
    held = _Held(guard.budget)
    for index, op in enumerate(graph.ops):
        guard.before_op()
        start = perf_counter_ns()
        results, updates = split_results(op, _evaluate(op, values, guard))
        held.add(op, results)
        if guard.after_op is not None:
            guard.after_op(op, results, perf_counter_ns() - start)
        values.update(zip(op.outputs, results, strict=True))
        for variable, value in updates:
            np.copyto(values[variable], value)
        for tensor in dict.fromkeys(t for t in op.inputs if t in values):
            if tensor is not None and last_use[tensor] == index and tensor not in keep:
                del values[tensor]
                held.drop(tensor)
    held.drop_all()
    return [_value(tensor, values) for tensor in graph.outputs]


class _Held:
    """What the values that a graph computed take of a budget, until they are dropped."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._sizes: dict[Tensor, int] = {}

    def add(self, op: Op, results: Sequence[np.ndarray]) -> None:
        """Charge results, which `_evaluate` saw to be affordable."""
        for tensor, array in zip(op.outputs, results, strict=True):
            self._sizes[tensor] = array.nbytes
            self._budget.taken += array.nbytes

    def drop(self, tensor: Tensor) -> None:
        """Give back what a value took."""
        self._budget.taken -= self._sizes.pop(tensor, 0)

    def drop_all(self) -> None:
        """Give back all: whoever ran the graph charges what it gave."""
        self._budget.taken -= sum(self._sizes.values())
        self._sizes.clear()


def _evaluate(op: Op, values: Mapping[Tensor, np.ndarray], guard: Guard) -> list[np.ndarray]:
    arrays = [None if tensor is None else _value(tensor, values) for tensor in op.inputs]
    needed = needed_bytes(op, arrays, guard.limits)
    if needed > guard.budget.left:
        guard.budget.charge(needed, f"{op.name} ({op.label})", "its results, and to compute them")
    guard.count_work(op, work_at(op, arrays))
    try:
        with np.errstate(all="ignore"):
            record = get(op)
            if record.scalar is None:
                return record.evaluate(op, arrays)
            return elementwise(lambda some: record.evaluate(op, some), arrays)
    except CircletError:
        raise
    except MemoryError as error:
        raise LimitError(
            "there is not enough memory", where=f"{op.name} ({op.label})", why=str(error)
        ) from error
    except FAILURES as error:
        raise BackendError(
            f"{op.label} failed in the reference backend", where=op.name, why=str(error)
        ) from error


def _value(tensor: Tensor, values: Mapping[Tensor, np.ndarray]) -> np.ndarray:
    if tensor.data is None:
        return values[tensor]
    return unpack_strings(tensor) if tensor.dtype is DType.STRING else tensor.data
