"""Fields of an options table that together say one attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from circlet.errors import FormatError
from circlet.ir import Op
from circlet.words import counted


@dataclass(frozen=True)
class Part:
    """Fields that are not simply the attribute of their name.

    Attributes:
        attribute: The attribute.
        fields: The fields that say it.
        decode: The attribute, from the values of all fields of the table.
        encode: The fields, for an op; FormatError where they cannot say its attribute.
    """

    attribute: str
    fields: tuple[str, ...]
    decode: Callable[[Mapping[str, object]], object]
    encode: Callable[[Op], dict[str, object]]


def renamed(attribute: str, field: str) -> Part:
    """One field under another name."""
    return Part(
        attribute,
        (field,),
        lambda fields: fields[field],
        lambda op: {field: vars(op.attrs)[attribute]},
    )


def paired(attribute: str, *names: str) -> Part:
    """Several fields that are the elements of one tuple."""

    def encode(op: Op) -> dict[str, object]:
        values = vars(op.attrs)[attribute]
        if len(values) != len(names):
            raise FormatError(
                "an attribute of an operator cannot be stored",
                where=f"{op.name} ({op.label})",
                why=f"{attribute} has {counted(len(values), 'element')}, not {len(names)}",
            )
        return dict(zip(names, values, strict=True))

    return Part(attribute, names, lambda fields: tuple(fields[n] for n in names), encode)


ACTIVATION = renamed("activation", "fused_activation_function")
