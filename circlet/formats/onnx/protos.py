"""Drafted graphs as ONNX messages: names that are each given once, types, elements, attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from circlet.formats.onnx.notes import ORIGIN, origin_text
from circlet.formats.onnx.tensors import DTYPES
from circlet.formats.onnx.written_graph import Body, Drafted, NotWrittenError, Value
from circlet.ir import DType, Origin, Tensor
from circlet.ir.packed import packed

_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
WRITTEN_TYPES = frozenset(_NUMBERS) - {DType.COMPLEX64, DType.COMPLEX128}
# What stands around what an operator means: it is not what bears the operator's name.
_AROUND = frozenset(
    ("Transpose", "Cast", "Reshape", "QuantizeLinear", "DequantizeLinear", "Relu", "Clip")
)


def number_of(dtype: DType) -> int:
    """The number of an element type in files.

    Raises:
        NotWrittenError: ONNX has no such type.
    """
    if dtype not in _NUMBERS:
        raise NotWrittenError(f"ONNX has no type {dtype.name}")
    return _NUMBERS[dtype]


class Names:
    """Gives names that nothing else in the file has."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def give(self, wish: str) -> str:
        """The name that is wished for, or one with a number behind it."""
        name, number = wish or "value", self._next.get(wish, 2)
        while name in self._taken:
            name, number = f"{wish or 'value'}_{number}", number + 1
        self._next[wish] = number
        self._taken.add(name)
        return name


def name_values(body: Body, names: Names) -> None:
    """Give all values of a graph, and of those within its nodes, names of their own.

    Inputs and outputs get theirs first, as they are the user's.
    """
    ends = [value for value, _ in (*body.inputs, *body.outputs)]
    inner = [value for node in body.nodes for value in node.outputs]
    done: set[Value] = set()
    for value in (*ends, *body.constants, *inner):
        if value not in done:
            done.add(value)
            value.name = names.give(value.name)
    for node in body.nodes:
        for part in _bodies(node):
            name_values(part, names)


def name_nodes(nodes: Sequence[Drafted], names: Names) -> None:
    """Name nodes after what they are made of: the last one that computes bears the name itself."""
    bearers: dict[Origin, Drafted] = {}
    for node in nodes:
        known = bearers.get(node.origin)
        if known is None or known.kind in _AROUND or node.kind not in _AROUND:
            bearers[node.origin] = node
    for node in nodes:
        own = bearers[node.origin] is node
        node.name = names.give(node.origin.name if own else f"{node.origin.name}/{node.kind}")
        for part in _bodies(node):
            name_nodes(part.nodes, names)


def _bodies(node: Drafted) -> Iterable[Body]:
    return (value for value in node.attributes.values() if isinstance(value, Body))


class Messages:
    """Makes the messages of a model.

    Args:
        origins: Whether nodes say which operators of the user's file they descend from.
    """

    def __init__(self, origins: bool) -> None:
        from onnx import ModelProto

        self._origins, self.model = origins, ModelProto()

    def graph(self, body: Body, proto: Any) -> None:
        """Fill in the message of a graph."""
        for value in body.constants:
            _fill_tensor(proto.initializer.add(), value)
        for value, tensor in body.inputs:
            _fill_info(proto.input.add(), value, tensor, is_input=True)
        for value, tensor in body.outputs:
            _fill_info(proto.output.add(), value, tensor, is_input=False)
        for node in body.nodes:
            self._fill_node(proto.node.add(), node)

    def _fill_node(self, proto: Any, node: Drafted) -> None:
        proto.op_type, proto.domain, proto.name = node.kind, node.domain, node.name
        proto.input.extend("" if value is None else value.name for value in node.inputs)
        proto.output.extend(value.name for value in node.outputs)
        for name, value in node.attributes.items():
            self._fill_attribute(proto.attribute.add(), name, value)
        if self._origins:
            entry = proto.metadata_props.add()
            entry.key, entry.value = ORIGIN, origin_text(node.origin)

    def _fill_attribute(self, proto: Any, name: str, value: object) -> None:
        from onnx import helper, numpy_helper

        if isinstance(value, Body):
            proto.name, proto.type = name, proto.GRAPH
            proto.g.name = name
            self.graph(value, proto.g)
            return
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value, name)
        if isinstance(value, (list, tuple)) and not value:
            proto.name, proto.type = name, proto.INTS
            return
        proto.CopyFrom(helper.make_attribute(name, value))


def _fill_tensor(proto: Any, value: Value) -> None:
    array = value.data
    assert array is not None
    dtype = DType.of(array)
    proto.name, proto.data_type = value.name, number_of(dtype)
    proto.dims.extend(array.shape)
    stored = packed(array, dtype) if dtype.is_small else np.ascontiguousarray(array)
    proto.raw_data = stored.tobytes()


def _fill_info(proto: Any, value: Value, tensor: Tensor, *, is_input: bool) -> None:
    proto.name = value.name
    kind = proto.type.tensor_type
    kind.elem_type = number_of(tensor.dtype)
    if not tensor.has_rank:
        return
    kind.shape.SetInParent()
    names = tensor.dim_names or ("",) * len(tensor.shape)
    for axis, (size, name) in enumerate(zip(tensor.shape, names, strict=True)):
        dim = kind.shape.dim.add()
        if size is not None:
            dim.dim_value = size
        elif name or is_input:
            dim.dim_param = name or f"{value.name}_{axis}"
