"""Reports read back from pages, every field held to its type."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from circlet.errors import FormatError
from circlet.report.data import SCHEMA, Report

PAGE_START = b"<!doctype html>"
_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def is_page(head: bytes) -> bool:
    """Whether the start of a file is that of a page, or of its JSON, rather than of a model."""
    return head.lstrip().lower().startswith((PAGE_START, b"{"))


def reports_in(text: str, where: str) -> list[Report]:
    """The reports in a page, or in the JSON of one.

    Raises:
        FormatError: It is no report, or one of another version.
    """
    match = _DATA.search(text)
    try:
        found = json.loads(match[1] if match else text)["reports"]
        versions = {report["schema"] for report in found}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(where, error) from error
    if versions != {SCHEMA}:
        raise FormatError(
            "a report is of another version",
            where=where,
            why=f"this release reads version {SCHEMA}",
            fix="make it anew with `circlet report`",
        )
    try:
        return [_built(Report, report) for report in found]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(where, error) from error


def _damaged(where: str, error: Exception) -> FormatError:
    return FormatError(
        "a file is no report",
        where=where,
        why=f"its data cannot be read: {error}",
        fix="give a model, or a page that `circlet report` made",
    )


def _built(kind: Any, value: object) -> Any:
    """A value of an annotated type from plain data; TypeError where it is another."""
    if is_dataclass(kind):
        return _object(kind, value)
    form, inner = get_origin(kind), get_args(kind)
    if form is UnionType:
        if value is None and NoneType in inner:
            return None
        return _built(next(t for t in inner if t is not NoneType), value)
    if form is tuple and isinstance(value, list):
        kinds: Sequence[Any] = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_built(own, item) for own, item in zip(kinds, value, strict=True))
    if form is dict and isinstance(value, dict):
        return {str(key): _built(inner[1], item) for key, item in value.items()}
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} where {kind} is expected")
    return value


def _object(kind: Any, value: object) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} where {kind.__name__} is expected")
    return kind(
        **{n: _built(own, value[n]) for n, own in _fields(kind) if _is_given(kind, n, value)}
    )


def _is_given(kind: Any, name: str, value: Mapping[str, object]) -> bool:
    """Whether a field stands in the data; KeyError where it must."""
    if name in value:
        return True
    field = next(field for field in fields(kind) if field.name == name)
    if field.default is MISSING and field.default_factory is MISSING:
        raise KeyError(name)
    return False


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))
