"""Nodes that were read before their sizes were known, lowered as their importers lower them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from circlet.errors import CircletError
from circlet.formats.onnx import importers  # noqa: F401  (fills the table)
from circlet.formats.onnx.graph import GraphImporter, Reading
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import find_importer
from circlet.formats.onnx.tensors import TensorStore
from circlet.ir import Op, Tensor
from circlet.limits import Limits
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from circlet.ops.shape import copy_op


class _NodeOf(NamedTuple):
    """What an importer asks of an ONNX node, said by an op of the domain `onnx`."""

    op_type: str
    name: str
    output: list[str]
    domain: str = ""


class _NoGraph(NamedTuple):
    name: str = ""
    value_info: tuple[()] = ()
    output: tuple[()] = ()


def lowered(op: Op, fixed: Iterable[Tensor], limits: Limits) -> list[Op] | None:
    """Ops that mean exactly what an op of the domain `onnx` means, and write its results.

    None where its importer finds none, for the sizes and constants that are known now. `fixed` are
    operands that are the same in every run, be they stored as integers.
    """
    attrs, kind = op.attrs, op.custom_code.removeprefix(PREFIX)
    if not isinstance(attrs, OnnxAttrs) or find_importer("", kind, attrs.opset) is None:
        return None
    if any(isinstance(value, tuple) and _is_array(value) for _, value in attrs.values):
        return None  # importers read tensors of files
    state = Reading(TensorStore([], limits), limits, {"": attrs.opset})
    graph = GraphImporter(state, _NoGraph())
    graph.fixed.update(fixed)
    proto = _NodeOf(kind, op.name, [tensor.name for tensor in op.outputs])
    node = Node(graph, proto, op.inputs, dict(attrs.values), attrs.opset)
    node.origin = op.origin
    try:
        results = graph.by_importer(node)
    except (NotLoweredError, CircletError, ArithmeticError, LookupError, TypeError, ValueError):
        return None  # its record says in a run what is wrong with it
    return _writing(node.ops, results, op)


def _is_array(value: tuple[object, ...]) -> bool:
    return len(value) == 3 and isinstance(value[0], str) and isinstance(value[1], tuple)


def _writing(ops: list[Op], results: list[Tensor], op: Op) -> list[Op] | None:
    """The ops, with the op's own tensors as results; a result that none of them makes is copied."""
    if [t.dtype for t in results] != [t.dtype for t in op.outputs]:
        return None
    made = {tensor for other in ops for tensor in other.outputs}
    own: dict[Tensor, Tensor] = {}
    copies: list[Op] = []
    for source, target in zip(results, op.outputs, strict=True):
        if None in source.shape or not source.has_rank:
            return None
        target.shape, target.has_rank = source.shape, True
        if source in made and source not in own:
            own[source] = target
        else:
            copies.append(copy_op(own.get(source, source), target, op.origin))
    for other in ops:
        other.outputs = [own.get(tensor, tensor) for tensor in other.outputs]
        other.inputs = [None if t is None else own.get(t, t) for t in other.inputs]
    return [*ops, *copies]
