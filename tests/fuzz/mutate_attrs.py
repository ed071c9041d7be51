"""Mutations of operator options: every field of the attribute records, enumerations included."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from random import Random

from circlet.formats import schema
from circlet.formats.options import codec_of
from circlet.ir import Op, RawAttrs
from circlet.ops import find
from tests.fuzz import mutate_bytes, values

_SCHEMA = schema.by_name("tflite")
_WORDS = {
    "activation": list(_SCHEMA.enums["ActivationFunctionType"].values),
    "coordinate_transformation": ["asymmetric", "half_pixel", "align_corners", "cubic"],
}
_PADDINGS = (
    "SAME_UPPER",
    ((0, 0), (0, 0)),
    ((1, 0), (0, 2)),
    ((0, 0),),
    ((1 << 20, 0), (0, 0)),
    "",
)


def change_attribute(op: Op, random: Random) -> None:
    """Give one option another value, of the same type where it has one."""
    custom = op.extra.get("custom_options")
    if isinstance(custom, bytes):
        op.extra["custom_options"] = mutate_bytes.mutate(custom, random)
        return
    if isinstance(op.attrs, RawAttrs):
        names = list(op.attrs.fields)
        if names:
            name = random.choice(names)
            changed = another(op.attrs.fields[name], op.attrs.table, name, random)
            op.attrs = replace(op.attrs, fields={**op.attrs.fields, name: changed})
        return
    if not is_dataclass(op.attrs) or isinstance(op.attrs, type):
        return
    names = [field.name for field in fields(op.attrs)]
    record = find(op.label)
    if names and record is not None:
        name = random.choice(names)
        changed = another(getattr(op.attrs, name), codec_of(op.kind, "tflite").table, name, random)
        op.attrs = replace(op.attrs, **{name: changed})


def another(value: object, table: str, name: str, random: Random) -> object:
    """A value of the same kind as this one."""
    if isinstance(value, bool):
        return not value
    if name == "padding":
        return random.choice(_PADDINGS)
    if isinstance(value, str):
        return random.choice(_WORDS.get(name) or _enumeration(table, name) or [value])
    if isinstance(value, int):
        return random.choice((value + 1, value - 1, *values.INTEGERS))
    if isinstance(value, float):
        return random.choice(values.FLOATS)
    if isinstance(value, (tuple, list)):
        return _another_list([*value], random)
    return value


def _another_list(items: list[object], random: Random) -> tuple[object, ...]:
    style = random.random()
    if style < 0.3 and items:
        items.pop(random.randrange(len(items)))
    elif style < 0.5:
        items.append(random.choice(values.INTEGERS))
    elif items:
        items[random.randrange(len(items))] = random.choice(values.INTEGERS)
    return tuple(items)


def _enumeration(table: str, name: str) -> list[str]:
    spec = _SCHEMA.tables.get(table)
    field = spec.fields.get(name) if spec else None
    return list(field.enum.values) if field and field.enum else []
