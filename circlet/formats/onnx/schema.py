"""Attributes of nodes, checked by what the standard says of their operators."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from circlet.errors import FormatError

_NAMES = ("", "float", "int", "string", "tensor", "graph", "floats", "ints", "strings", "tensors")


def check_attributes(proto: Any, domain: str, opset: int, where: str) -> None:
    """FormatError where an attribute has another type than the standard's, or a needed one lacks.

    Attributes that the standard does not know are none of its business, as are other domains.
    """
    known, required = _stated(str(proto.op_type), domain, opset)
    for attribute in proto.attribute:
        wanted = known.get(attribute.name)
        if wanted is not None and attribute.type not in (0, wanted):
            why = f"{attribute.name} is of type {_name(attribute.type)}, not {_name(wanted)}"
            raise FormatError("an attribute has the wrong type", where=where, why=why)
    missing = required.difference(attribute.name for attribute in proto.attribute)
    if missing:
        raise FormatError("an attribute is missing", where=where, why=", ".join(sorted(missing)))


@lru_cache(maxsize=1024)
def _stated(kind: str, domain: str, opset: int) -> tuple[dict[str, int], frozenset[str]]:
    """The types of an operator's attributes, and which of them must be there."""
    from onnx import defs

    if not defs.has(kind, domain):
        return {}, frozenset()
    try:
        schema = defs.get_schema(kind, min(opset, defs.onnx_opset_version()), domain)
    except defs.SchemaError:  # it is newer than the operator set that the file states
        schema = defs.get_schema(kind, domain=domain)
    types = {name: int(a.type.value) for name, a in schema.attributes.items()}
    return types, frozenset(name for name, a in schema.attributes.items() if a.required)


def _name(number: int) -> str:
    return _NAMES[number] if number < len(_NAMES) else str(number)
