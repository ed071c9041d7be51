"""Nodes, checked by what the standard says of their operators."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from circlet.errors import FormatError, GraphError

_NAMES = ("", "float", "int", "string", "tensor", "graph", "floats", "ints", "strings", "tensors")


class _Stated(NamedTuple):
    """The types of an operator's attributes, which must be there, its operands and outputs."""

    types: Mapping[str, int] = MappingProxyType({})
    required: frozenset[str] = frozenset()
    operands: tuple[tuple[int, str], ...] = ()  # places and names of those that it needs
    most_outputs: int = sys.maxsize


def check_node(proto: Any, domain: str, opset: int, where: str) -> None:
    """See that a node is as the standard says of its operator.

    Attributes that the standard does not know are none of its business, as are other domains.

    Raises:
        FormatError: An attribute has another type, or a needed one lacks.
        GraphError: A needed operand lacks, or it has more outputs.
    """
    stated = _stated(str(proto.op_type), domain, opset)
    _check_attributes(proto, stated, where)
    for place, name in stated.operands:
        if place >= len(proto.input) or not proto.input[place]:
            raise GraphError("a node lacks an operand", where=where, why=f"{place}, {name}")
    named = [number for number, name in enumerate(proto.output, 1) if name]
    if named and named[-1] > stated.most_outputs:
        why = f"output {named[-1]} of at most {stated.most_outputs}"
        raise GraphError("a node has more outputs than its operator", where=where, why=why)


def _check_attributes(proto: Any, stated: _Stated, where: str) -> None:
    known, required = stated.types, stated.required
    for attribute in proto.attribute:
        wanted = known.get(attribute.name)
        if wanted is not None and attribute.type not in (0, wanted):
            why = f"{attribute.name} is of type {_name(attribute.type)}, not {_name(wanted)}"
            raise FormatError("an attribute has the wrong type", where=where, why=why)
    missing = required.difference(attribute.name for attribute in proto.attribute)
    if missing:
        raise FormatError("an attribute is missing", where=where, why=", ".join(sorted(missing)))


@lru_cache(maxsize=1024)
def _stated(kind: str, domain: str, opset: int) -> _Stated:
    """What the standard says of an operator; nothing of one that it does not know."""
    from onnx import defs

    if not defs.has(kind, domain):
        return _Stated()
    try:
        schema = defs.get_schema(kind, min(opset, defs.onnx_opset_version()), domain)
    except defs.SchemaError:  # it is newer than the operator set that the file states
        schema = defs.get_schema(kind, domain=domain)
    types = {name: int(a.type.value) for name, a in schema.attributes.items()}
    required = frozenset(name for name, a in schema.attributes.items() if a.required)
    optional = defs.OpSchema.FormalParameterOption.Optional
    operands = tuple(
        (place, operand.name)
        for place, operand in enumerate(schema.inputs[: schema.min_input])
        if operand.option != optional
    )
    return _Stated(types, required, operands, schema.max_output)


def _name(number: int) -> str:
    return _NAMES[number] if number < len(_NAMES) else str(number)
