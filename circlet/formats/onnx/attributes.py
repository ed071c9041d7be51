"""Attributes of nodes as plain values, and as records of the domain `onnx` store them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.errors import FormatError

if TYPE_CHECKING:
    from circlet.formats.onnx.node import Node
    from circlet.formats.onnx.tensors import TensorStore

# By the numbers of onnx.AttributeProto.AttributeType: where a value stands, and how to read it.
_FIELDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings"}
_MESSAGES = {9: "tensors", 10: "graphs", 11: "sparse_tensor", 12: "sparse_tensors", 13: "tp"}


def attribute_value(proto: Any, where: str) -> Any:
    """The value of an attribute: numbers, texts, lists of these, or ONNX messages."""
    field = (_FIELDS | _MESSAGES).get(proto.type)
    if field is None:
        raise FormatError("an attribute has no known type", where=where, why=str(proto.name))
    value = getattr(proto, field)
    if field == "s":
        return _text(value)
    if field == "strings":
        return [_text(item) for item in value]
    return list(value) if field in ("floats", "ints", "tensors", "graphs") else value


def stored_attributes(node: Node, store: TensorStore) -> tuple[tuple[str, object], ...]:
    """A node's attributes as the record of its kind holds them; tensors as arrays' lists."""
    return tuple(sorted((k, _plain(v, k, node, store)) for k, v in node.attributes.items()))


def _plain(value: Any, name: str, node: Node, store: TensorStore) -> object:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, (int, float, str)):
        return value
    if hasattr(value, "dims"):
        array = np.asarray(store.array(value, f"{node.name}.{name}"))
        plain = array.astype(np.float32) if array.dtype.kind == "V" else array
        return (array.dtype.name, tuple(array.shape), tuple(plain.reshape(-1).tolist()))
    raise node.wrong("an attribute cannot be stored", name)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
