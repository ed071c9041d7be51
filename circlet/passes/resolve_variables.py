"""Resource variables become variable tensors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Graph, Op, RawAttrs, Tensor
from circlet.ir.regions import reachable
from circlet.ops import NoAttrs
from circlet.ops.verify import op_violations
from circlet.passes.fold_constants import FoldConstants
from circlet.passes.rewriter import Rewriter

_HANDLE, _READ, _ASSIGN, _ONCE = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"


@dataclass
class _Variables:
    """Variable tensors by (container, shared name), and the handles that refer to them."""

    by_name: dict[tuple[str, str], Tensor] = field(default_factory=dict)
    by_handle: dict[Tensor, tuple[str, str]] = field(default_factory=dict)


def resolve_variables(main: Graph, folding: FoldConstants | None = None) -> bool:
    """Replace handles by variable tensors in a graph and all graphs that it runs.

    Before: `h = VAR_HANDLE; x = READ_VARIABLE(h); ASSIGN_VARIABLE(h, y)`, with a CALL_ONCE whose
    graph assigns a constant. After: `x = READ_VARIABLE(v); ASSIGN_VARIABLE(v, y)` over a variable
    tensor `v` that starts as the constant, which `folding` computes where it has to be. True if
    anything changed.

    Raises:
        GraphError: A variable is used and nothing says its type, or its start is not constant.
    """
    graphs = reachable(main)
    handles = [op for graph in graphs for op in graph.ops if op.kind == _HANDLE]
    if not handles:
        return False
    found = _Variables(by_handle={_handle(op): _name(op) for op in handles})
    for graph in graphs:
        for op in graph.ops:
            _declare(op, found)
    for graph in graphs:
        for op in graph.ops:
            if op.kind == _ONCE:
                _run_once(op, found, folding or FoldConstants())
    for graph in graphs:
        _resolve(graph, found)
    main.tensors += [t for t in found.by_name.values() if t not in main.tensors]
    return True


def _handle(op: Op) -> Tensor:
    if len(op.outputs) != 1:
        raise GraphError(f"{op.kind} has not one output", where=op.name)
    return op.outputs[0]


def _name(op: Op) -> tuple[str, str]:
    fields = op.attrs.fields if isinstance(op.attrs, RawAttrs) else {}
    return str(fields.get("container", "")), str(fields.get("shared_name", ""))


def _declare(op: Op, found: _Variables) -> None:
    """Make the variable that an op reads or assigns, of the type that it has there."""
    if op.kind not in (_READ, _ASSIGN) or not op.inputs or op.inputs[0] not in found.by_handle:
        return
    value = op.outputs[0] if op.kind == _READ and op.outputs else op.input(1)
    name = found.by_handle[op.inputs[0]]
    if value is not None and name not in found.by_name:
        typed = replace(value, name=name[1], data=None, extra={}, is_variable=True)
        found.by_name[name] = typed


def _run_once(op: Op, found: _Variables, folding: FoldConstants) -> None:
    """Take the starts of variables from the graph of a CALL_ONCE."""
    for region in op.regions:
        _verify(region)
        folding.run(region)
        for inner in region.ops:
            if inner.kind != _ASSIGN:
                continue
            value = inner.input(1)
            if value is None or value.data is None:
                raise GraphError(
                    "a variable does not start as a constant",
                    where=inner.name,
                    why="the graph that sets it computes the value",
                )
            name = found.by_handle.get(_operand(inner))
            if name in found.by_name:
                _start(found.by_name[name], value.data, inner)


def _verify(region: Graph) -> None:
    """Raise for an operator that folding could stumble over; handles are resolved later."""
    for op in region.ops:
        faults = () if op.kind in (_HANDLE, _ASSIGN, _READ) else op_violations(op, region)
        for violation in faults:
            raise violation.error()


def _start(variable: Tensor, value: np.ndarray, op: Op) -> None:
    """Have a variable start as a value."""
    typed = variable.dtype.has_numpy and variable.dtype.numpy == value.dtype
    if not typed or variable.static_shape != value.shape:
        raise GraphError(
            "a variable starts as a value of another type than it is used with",
            where=op.name,
            why=f"{value.dtype.name}{list(value.shape)} instead of {variable!r}",
        )
    variable.initial = np.asarray(value)


def _resolve(graph: Graph, found: _Variables) -> None:
    rewriter = Rewriter(graph)
    for op in rewriter.ops():
        if op.kind in (_HANDLE, _ONCE):
            rewriter.remove(op)
        elif op.kind in (_READ, _ASSIGN) and _operand(op) in found.by_handle:
            name = found.by_handle[_operand(op)]
            if name not in found.by_name:
                raise GraphError("nothing says the type of a variable", where=op.name, why=name[1])
            inputs = [found.by_name[name], *op.inputs[1:]]
            rewriter.replace([op], replace(op, inputs=inputs, attrs=NoAttrs()))
    rewriter.finish()


def _operand(op: Op) -> Tensor:
    first = op.input(0)
    if first is None:
        raise GraphError(f"{op.kind} has no handle", where=op.name)
    return first
