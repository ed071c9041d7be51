"""Branches and loops: graphs within nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.formats.onnx.protos import number_of
from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import Body, NotWrittenError, Value, WrittenGraph
from circlet.ir import DType, Graph, Tensor


def _run(op: Written, region: Graph, graph: WrittenGraph, given: Sequence[Value]) -> list[Value]:
    """The results of a graph whose operators are put into another one."""
    from circlet.formats.onnx.write import write_op

    for tensor, value in zip(region.inputs, given, strict=True):
        graph.make(tensor, value)
    refused: list[str] = []
    for inner in region.ops:
        write_op(inner, graph, refused)
    graph.origin = op.op.origin
    if refused:
        raise NotWrittenError("; ".join(refused))
    return [graph.value(tensor) for tensor in region.outputs]


def _ends(graph: WrittenGraph, results: Sequence[Value], tensors: Sequence[Tensor]) -> Body:
    """The graph with its outputs, each a value of a node of its own."""
    for value, tensor in zip(results, tensors, strict=True):
        made = graph.node("Identity", [value], [f"{tensor.name}_result"], {})[0]
        graph.body.outputs.append((made, tensor))
    return graph.body


def _flag(graph: WrittenGraph, value: Value, tensor: Tensor) -> Value:
    """Whether any element is true."""
    name = f"{tensor.name}_flag"
    if tensor.has_rank and tensor.shape == ():
        return value
    if tensor.has_rank and all(size == 1 for size in tensor.shape):
        sizes = graph.constant(np.zeros(0, np.int64), "scalar")
        return graph.node("Reshape", [value, sizes], [name], {})[0]
    counted = graph.node("Cast", [value], [name], {"to": number_of(DType.INT32)})
    summed = graph.node("ReduceSum", counted, [name], {"keepdims": 0})
    return graph.node("Cast", summed, [name], {"to": number_of(DType.BOOL)})[0]


@writes("IF")
def _if(op: Written) -> None:
    given = [op.value(tensor) for tensor in op.inputs[1:]]
    bodies = []
    for region in op.op.regions:
        inner = WrittenGraph(op.graph)
        results = _run(op, region, inner, given)
        bodies.append(_ends(inner, results, region.outputs))
    flag = _flag(op.graph, op.value(op[0]), op[0])
    branches = {"then_branch": bodies[0], "else_branch": bodies[1]}
    for index, value in enumerate(op.many("If", [flag], len(op.op.outputs), **branches)):
        op.give_stored(value, index=index)


@writes("WHILE")
def _while(op: Written) -> None:
    """The condition is computed ahead of the loop and behind each turn."""
    condition, turn = op.op.regions
    given = [op.value(tensor) for tensor in op.inputs]
    (first,) = _run(op, condition, op.graph, given)
    inner = WrittenGraph(op.graph)
    number, going = Value(f"{op.op.name}_turn"), Value(f"{op.op.name}_going")
    variables = [Value(f"{tensor.name}_before") for tensor in turn.inputs]
    inner.body.inputs += [
        (number, Tensor("", DType.INT64, ())),
        (going, Tensor("", DType.BOOL, ())),
        *zip(variables, op.op.outputs, strict=True),
    ]
    results = _run(op, turn, inner, variables)
    (again,) = _run(op, condition, inner, results)
    (asked,) = condition.outputs
    flags = [_flag(graph, value, asked) for graph, value in ((op.graph, first), (inner, again))]
    tensors = [Tensor("", DType.BOOL, ()), *op.op.outputs]
    body = _ends(inner, [flags[1], *results], tensors)
    loop = op.many("Loop", [None, flags[0], *given], len(op.op.outputs), body=body)
    for index, value in enumerate(loop):
        op.give_stored(value, index=index)
