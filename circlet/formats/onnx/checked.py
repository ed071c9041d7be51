"""A parsed .onnx file, checked for what the package `onnx` takes for granted.

Its inference of types and its inliner are native code that trusts the file: an operand that lacks,
or a negative size, ends the process. So all that they will read is seen to before they are called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from circlet.errors import FormatError
from circlet.formats.onnx.schema import check_node

DEFAULT_DOMAINS = ("", "ai.onnx")


def check_names(proto: Any) -> None:
    """See that names are UTF-8: others come as bytes, which are no names to anyone.

    Raises:
        FormatError: One is not.
    """
    for node in all_nodes(proto):
        names = (node.op_type, node.domain, node.name, *node.input, *node.output)
        if not all(isinstance(name, str) for name in (*names, *(a.name for a in node.attribute))):
            raise FormatError("a name in the .onnx file is no UTF-8 text", where=repr(node.op_type))
    graph = proto.graph
    values = (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
    if not all(isinstance(value.name, str) for value in values):
        raise FormatError("a name in the .onnx file is no UTF-8 text", where=str(graph.name))
    if not all(isinstance(entry.domain, str) for entry in proto.opset_import):
        raise FormatError("a name in the .onnx file is no UTF-8 text", where="opset_import")


def check_nodes(proto: Any, opsets: Mapping[str, int]) -> None:
    """See that every node is as the standard says of its operator, and every size a size.

    A stated size below 0 is an open one: that of some exporters, and to ONNX Runtime.

    `opsets` are the versions of the model's operator sets by domain; functions state their own.

    Raises:
        FormatError: An attribute has another type, or a needed one lacks; or a constant has a
            negative size.
        GraphError: A needed operand lacks, or a node has more outputs.
    """
    own = {(function.domain, function.name) for function in proto.functions}
    for body in (proto.graph, *proto.functions):
        stated = opsets if body is proto.graph else stated_opsets(body.opset_import)
        for graph in all_graphs(body):
            _check_sizes(graph)
            for node in graph.node:
                if (node.domain, node.op_type) not in own:
                    domain = "" if node.domain in DEFAULT_DOMAINS else str(node.domain)
                    check_node(node, domain, stated.get(domain, 0), place(node))
                for attribute in node.attribute:
                    _check_attribute(attribute, place(node))


def stated_opsets(entries: Any) -> dict[str, int]:
    """The version of each operator set that a model or a function imports, by domain."""
    return {
        "" if entry.domain in DEFAULT_DOMAINS else str(entry.domain): int(entry.version)
        for entry in entries
    }


def place(node: Any) -> str:
    """How a message names a node: by its name, else its first output; and its kind."""
    return f"{node.name or next(iter(node.output), '')} ({node.op_type})"


def all_nodes(proto: Any) -> Iterator[Any]:
    """All nodes of a model, those of nested graphs and of its functions included."""
    for body in (proto.graph, *proto.functions):
        for graph in all_graphs(body):
            yield from graph.node


def all_graphs(body: Any) -> Iterator[Any]:
    """A graph or function, and the graphs that its nodes hold."""
    waiting = [body]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                waiting += [attribute.g] if attribute.HasField("g") else []
                waiting += list(attribute.graphs)


def _check_sizes(body: Any) -> None:
    """Of the stated types of a graph or function, and of a graph's constants."""
    for value in body.value_info:
        _open_sizes(value.type)
    if not hasattr(body, "initializer"):
        return  # a function has neither typed operands nor constants
    for value in (*body.input, *body.output):
        _open_sizes(value.type)
    for tensor in body.initializer:
        _check_constant(tensor.dims, tensor.name)
    for tensor in body.sparse_initializer:
        _check_constant(
            (*tensor.dims, *tensor.values.dims, *tensor.indices.dims), tensor.values.name
        )


def _check_attribute(attribute: Any, where: str) -> None:
    for tensor in (attribute.t, *attribute.tensors):
        _check_constant(tensor.dims, where)
    for tensor in (attribute.sparse_tensor, *attribute.sparse_tensors):
        _check_constant((*tensor.dims, *tensor.values.dims, *tensor.indices.dims), where)
    for stated in (attribute.tp, *attribute.type_protos):
        _open_sizes(stated)


def _open_sizes(stated: Any) -> None:
    """Leave negative sizes of a type open, and of those inside sequences, optionals and maps."""
    while (kind := stated.WhichOneof("value")) in ("sequence_type", "optional_type", "map_type"):
        inner = getattr(stated, kind)
        stated = inner.value_type if kind == "map_type" else inner.elem_type
    if kind in ("tensor_type", "sparse_tensor_type"):
        for dim in getattr(stated, kind).shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")


def _check_constant(sizes: Any, where: str) -> None:
    if any(size < 0 for size in sizes):
        raise FormatError("a constant has a negative size", where=where, why=str(list(sizes)))
