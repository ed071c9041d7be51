"""What an .onnx file says of itself, its inputs and its outputs, read without the package onnx.

Constants are skipped. On the path of cached starts of `InferenceSession`, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from circlet.errors import FormatError
from circlet.formats.onnx.wire import fields
from circlet.struct import Struct

# By the numbers of onnx.TensorProto.DataType, in the words of the standard's type strings.
ELEMENTS = (
    *("", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool"),
    *("float16", "double", "uint32", "uint64", "complex64", "complex128", "bfloat16"),
    *("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4"),
    *("float4e2m1", "float8e8m0", "uint2", "int2"),
)
_OVERRIDABLE_SINCE = 4  # of the intermediate representation: before, such inputs are constants
_DEEPEST_TYPE = 16
_MADE = "unk__"
_SIGN = 1 << 63

Size = int | str | None


class ValueInfo(Struct):
    """An input or an output as the file states it.

    Attributes:
        name: Its name.
        type: Its type, such as "tensor(float)" or "seq(tensor(int64))".
        shape: Sizes: numbers, names, or None where a size is open and has no name. None where the
            file states none.
        denotations: What each size means, "" where the file does not say.
    """

    name: str
    type: str = ""
    shape: tuple[Size, ...] | None = None
    denotations: tuple[str, ...] = ()

    @property
    def is_tensor(self) -> bool:
        """Whether its values are plain tensors."""
        return self.type.startswith("tensor(")

    @property
    def is_open(self) -> bool:
        """Whether sizes of it are not stated."""
        return self.shape is None or not all(isinstance(size, int) for size in self.shape)


class Header(Struct):
    """A model without its nodes and constants.

    Attributes:
        inputs: What callers must give.
        overridable: Inputs that have a value, and may be given another.
    """

    producer: str = ""
    domain: str = ""
    version: int = 0
    description: str = ""
    metadata: Mapping[str, str] = {}
    graph_name: str = ""
    graph_description: str = ""
    inputs: tuple[ValueInfo, ...] = ()
    outputs: tuple[ValueInfo, ...] = ()
    overridable: tuple[ValueInfo, ...] = ()


def read_header(data: memoryview) -> Header | None:
    """The header of the bytes of a file; None where it holds no graph.

    Raises:
        FormatError: They are no protocol buffer.
    """
    facts: dict[str, Any] = {}
    names = {2: "producer", 4: "domain", 6: "description"}
    metadata: dict[str, str] = {}
    graph, ir_version = None, 0
    for number, value, body, _ in fields(data):
        if number in names:
            facts[names[number]] = _text(body)
        elif number == 1:
            ir_version = value
        elif number == 5:
            facts["version"] = value - 2 * _SIGN if value >= _SIGN else value
        elif number == 7:
            graph = body
        elif number == 14:
            entry = {key: _text(text) for key, _, text, _ in fields(body)}
            metadata[entry.get(1, "")] = entry.get(2, "")
    if graph is None:
        return None
    return Header(**facts, metadata=metadata, **_graph(graph, ir_version >= _OVERRIDABLE_SINCE))


def _graph(data: memoryview, is_overridable: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    inputs, outputs, valued = [], [], set()
    for number, _, body, _ in fields(data):
        if number == 2:
            facts["graph_name"] = _text(body)
        elif number == 10:
            facts["graph_description"] = _text(body)
        elif number == 5:
            valued.add(tensor_name(body))
        elif number == 11:
            inputs.append(_value_info(body))
        elif number == 12:
            outputs.append(_value_info(body))
    facts["inputs"] = tuple(v for v in inputs if v.name not in valued)
    facts["outputs"] = tuple(outputs)
    if is_overridable:
        facts["overridable"] = tuple(v for v in inputs if v.name in valued)
    return facts


def tensor_name(data: memoryview) -> str:
    """The name of a constant, of its bytes."""
    return next((_text(body) for number, _, body, _ in fields(data) if number == 8), "")


def _value_info(data: memoryview) -> ValueInfo:
    facts: dict[str, Any] = {"name": ""}
    for number, _, body, _ in fields(data):
        if number == 1:
            facts["name"] = _text(body)
        elif number == 2:
            facts["type"] = _type_text(body)
            for shape in _shapes(body):
                sizes = [_size(dim) for key, _, dim, _ in fields(shape) if key == 1]
                facts["shape"] = tuple(size for size, _ in sizes)
                facts["denotations"] = tuple(meaning for _, meaning in sizes)
    return ValueInfo(**facts)


def _shapes(data: memoryview) -> Iterator[memoryview]:
    """The shape of a tensor's type; of other types there is none."""
    for number, _, tensor, _ in fields(data):
        if number == 1:
            yield from (body for key, _, body, _ in fields(tensor) if key == 2)


def _type_text(data: memoryview, depth: int = 0) -> str:
    if depth > _DEEPEST_TYPE:
        raise FormatError("a type of the .onnx file is nested too deeply")
    kinds = {4: "seq", 9: "optional"}
    for number, _, body, _ in fields(data):
        inner = {key: (value, part) for key, value, part, _ in fields(body)}
        element = _element(inner.get(1, (0, body))[0])
        if number == 1:
            return f"tensor({element})"
        if number == 8:
            return f"sparse_tensor({element})"
        if number in kinds and 1 in inner:
            return f"{kinds[number]}({_type_text(inner[1][1], depth + 1)})"
        if number == 5 and 2 in inner:
            return f"map({element},{_type_text(inner[2][1], depth + 1)})"
    return ""


def _element(number: int) -> str:
    return ELEMENTS[number] if number < len(ELEMENTS) else f"type {number}"


def _size(data: memoryview) -> tuple[Size, str]:
    """A size, and what it means."""
    size: Size = None
    meaning = ""
    for number, value, body, _ in fields(data):
        if number == 1:
            size = None if value >= _SIGN else value  # a negative one: open, as exporters mean it
        elif number == 2:
            size = _text(body) or None
        elif number == 3:
            meaning = _text(body)
    return size, meaning


def _text(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise FormatError("a text in the .onnx file is no UTF-8", why=repr(bytes(data))) from None


def inferred_outputs(data: memoryview) -> tuple[ValueInfo, ...]:
    """The outputs with sizes that the package onnx infers where the file states none.

    Raises:
        ImportError: The package is not installed.
    """
    from onnx import ModelProto
    from onnx.shape_inference import infer_shapes

    from circlet.formats.onnx.skeleton import skeleton

    small, _ = skeleton(data)
    proto = infer_shapes(ModelProto.FromString(small))
    header = read_header(memoryview(proto.SerializeToString()))
    outputs = header.outputs if header is not None else ()
    return tuple(info._replace(shape=_without_made_names(info.shape)) for info in outputs)


def _without_made_names(shape: tuple[Size, ...] | None) -> tuple[Size, ...] | None:
    """Sizes without the names that the package onnx makes for those that it cannot tell."""
    if shape is None:
        return None
    return tuple(None if str(size).startswith(_MADE) else size for size in shape)
