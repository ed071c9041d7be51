"""Runs a graph by the numpy semantics of its operators' records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np

from circlet.errors import BackendError, CircletError, LimitError
from circlet.ir import DType, Graph, Op, Tensor
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops.growth import check_growth
from circlet.ops.opdef import get
from circlet.ops.state import initial_value, split_results, variables
from circlet.ops.strings import unpack_strings

AfterOp = Callable[[Op, Sequence[np.ndarray], int], None]


def _go_on() -> None:
    """Nothing stops this run."""


@dataclass
class Guard:
    """What may stop a run, in the graphs that its ops run too.

    Attributes:
        before_op: Called ahead of each op; may raise.
        limits: Bounds of the run.
        turns: Turns that all loops have done.
        after_op: Called behind each op with its results and the nanoseconds it took; may raise.
    """

    before_op: Callable[[], None] = _go_on
    limits: Limits = DEFAULT_LIMITS
    turns: int = 0
    after_op: AfterOp | None = None

    def count_turn(self, name: str) -> None:
        """Count one turn of the loop of this name; LimitError for one too many."""
        self.turns += 1
        if self.turns > self.limits.loop_turns:
            raise LimitError(
                "a loop of the network did not end",
                where=name,
                why=f"the run passed {self.limits.loop_turns} turns",
                fix="raise `loop_turns` of circlet.limits.Limits if this is meant",
            )


_GUARD: ContextVar[Guard] = ContextVar("guard")


def current_guard() -> Guard:
    """The guard of the run in progress, or one of the default limits."""
    return _GUARD.get(None) or Guard()


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
    token = _GUARD.set(guard)
    try:
        return _evaluate_ops(graph, inputs, guard)
    finally:
        _GUARD.reset(token)


def _evaluate_ops(graph: Graph, inputs: Sequence[np.ndarray], guard: Guard) -> list[np.ndarray]:
    living = [*variables(graph), *(tensor for tensor in graph.outputs if tensor.is_variable)]
    values = {tensor: initial_value(tensor) for tensor in living}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    last_use = {t: index for index, op in enumerate(graph.ops) for t in op.inputs if t is not None}
    keep = set(graph.outputs)
    for index, op in enumerate(graph.ops):
        guard.before_op()
        start = perf_counter_ns()
        results, updates = split_results(op, _evaluate(op, values, guard.limits))
        if guard.after_op is not None:
            guard.after_op(op, results, perf_counter_ns() - start)
        values.update(zip(op.outputs, results, strict=True))
        for variable, value in updates:
            np.copyto(values[variable], value)
        for tensor in dict.fromkeys(t for t in op.inputs if t in values):
            if tensor is not None and last_use[tensor] == index and tensor not in keep:
                del values[tensor]
    return [_value(tensor, values) for tensor in graph.outputs]


def _evaluate(op: Op, values: Mapping[Tensor, np.ndarray], limits: Limits) -> list[np.ndarray]:
    arrays = [None if tensor is None else _value(tensor, values) for tensor in op.inputs]
    check_growth(op, arrays, limits)
    try:
        with np.errstate(all="ignore"):
            return get(op).evaluate(op, arrays)
    except CircletError:
        raise
    except MemoryError as error:
        raise LimitError(
            "there is not enough memory", where=f"{op.name} ({op.label})", why=str(error)
        ) from error
    except (ValueError, IndexError, TypeError, FloatingPointError) as error:
        raise BackendError(
            f"{op.label} failed in the reference backend", where=op.name, why=str(error)
        ) from error


def _value(tensor: Tensor, values: Mapping[Tensor, np.ndarray]) -> np.ndarray:
    if tensor.data is None:
        return values[tensor]
    return unpack_strings(tensor) if tensor.dtype is DType.STRING else tensor.data
