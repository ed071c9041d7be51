"""The text form with the records' attribute classes."""

from __future__ import annotations

from circlet.ir import Model
from circlet.ir.parse import from_text
from circlet.ir.text import to_text
from circlet.ops.fused import FusedAttrs
from circlet.ops.opdef import find

__all__ = ["parse", "to_text"]


def parse(text: str, source: str = "text") -> Model:
    """The model that a text describes; FormatError with line and column."""
    return from_text(text, attributes_class, source)


def attributes_class(kind: str) -> type | None:
    """The attribute class of a kind, None where no text holds it: parts are none."""
    record = find(kind)
    return None if record is None or issubclass(record.attrs, FusedAttrs) else record.attrs
