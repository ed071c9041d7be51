"""Field-by-field comparison of our reader with the object API of the ecosystem's bindings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from circlet.formats.flatbuffer import Table
from circlet.formats.schema import Field

# Fields that the bindings leave out because the schema marks them deprecated.
DEPRECATED = {"new_height", "new_width", "deprecated_tag", "data_format"}
# Circle names the two fields of one slot otherwise than TFLite.
ALIASES = {"adj_x": "adjointLhs", "adj_y": "adjointRhs"}


def differences(table: Table, judge: Any, path: str = "Model") -> Iterator[str]:
    """What our reader and the bindings' object disagree on, below this table."""
    for field in table.spec.fields.values():
        if field.name not in DEPRECATED:
            yield from _field_differences(table, field, judge, f"{path}.{field.name}")


def judge_name(field_name: str, judge: Any) -> str:
    """The bindings' attribute of a schema field."""
    name = re.sub(r"_([a-z0-9])", lambda match: match.group(1).upper(), field_name)
    return name if hasattr(judge, name) else ALIASES[field_name]


def _field_differences(table: Table, field: Field, judge: Any, path: str) -> Iterator[str]:
    theirs = getattr(judge, judge_name(field.name, judge))
    if field.kind == "scalar":
        yield from _unequal(table.scalar(field.name), theirs, path)
    elif field.kind == "string":
        yield from _unequal(table.text(field.name), (theirs or b"").decode(), path)
    elif field.kind == "vector" and field.element == "scalar":
        other = np.asarray([] if theirs is None else theirs, field.numpy)
        yield from _unequal(table.array(field.name).tobytes(), other.tobytes(), path)
    elif field.kind == "vector":
        yield from _vector_differences(table, field, theirs or [], path)
    else:
        yield from _child_differences(table, field, theirs, path)


def _vector_differences(table: Table, field: Field, theirs: list[Any], path: str) -> Iterator[str]:
    ours = list(table.tables(field.name))
    yield from _unequal(len(ours), len(theirs), f"length of {path}")
    for index, (child, other) in enumerate(zip(ours, theirs, strict=False)):
        yield from differences(child, other, f"{path}[{index}]")


def _child_differences(table: Table, field: Field, theirs: Any, path: str) -> Iterator[str]:
    ours = table.union(field.name) if field.kind == "union" else table.table(field.name)
    if ours is None or theirs is None:
        yield from _unequal(ours is None, theirs is None, f"absence of {path}")
        return
    yield from _unequal(f"{ours.spec.name}T", type(theirs).__name__, f"table of {path}")
    yield from differences(ours, theirs, path)


def _unequal(ours: object, theirs: object, path: str) -> Iterator[str]:
    if ours != theirs:
        yield f"{path}: {ours!r} here, {theirs!r} there"
