"""A graph builder that takes output types and default attributes from the operator records."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ir.builder import Builder
from circlet.ops.opdef import NoAttrs, TensorType, find, get
from circlet.ops.requantization import litert_requantization


def builder(name: str = "main", first_id: int = 0) -> Builder:
    """A `Builder` bound to the records: outputs are inferred, omitted attributes default.

    Ops requantise as LiteRT does.
    """
    return Builder(name, infer_types, default_attrs, first_id, litert_requantization)


def infer_types(op: Op) -> Sequence[TensorType]:
    """Output types of an op by its record; GraphError where its kind has none."""
    return get(op).infer(op)


def default_attrs(kind: str) -> object:
    """The attributes of a kind with every field at its default; NoAttrs for an unknown kind."""
    record = find(kind)
    if record is None:
        return NoAttrs()
    try:
        attrs: object = record.attrs()
    except TypeError as error:
        raise GraphError(f"{kind} needs explicit attributes", where=kind, why=str(error)) from None
    return attrs
