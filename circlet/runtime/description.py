"""What an artifact says of its plan, checked before any of its code is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from circlet.small_dtypes import SMALL_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DTYPES = frozenset(
    (
        *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128", "object"),
        *(name.lower() for name in SMALL_BITS),
    )
)
_MOST_DIMENSIONS = 32
_LARGEST_SIZE = (1 << 63) - 1
_ROW = 4


def check_description(facts: Mapping[str, Any]) -> None:
    """See that metadata describes values, and partitions that read and make these.

    Raises:
        ValueError, KeyError, TypeError: It does not.
    """
    count = len(facts["values"])
    _check_values(facts["values"])
    for entry in (facts, *facts["partitions"]):
        for role in ("inputs", "outputs"):
            if not all(_is_integer(number, 0, count - 1) for number in _list(entry[role])):
                raise ValueError(f"{role} are no numbers of values")
    if any(-1 in facts["values"][number]["shape"] for number in facts["inputs"]):
        raise ValueError("an input has a size that only a run would tell")
    made = {number for entry in facts["partitions"] for number in entry["outputs"]}
    if any(-1 in facts["values"][number]["shape"] for number in {*facts["outputs"]} - made):
        raise ValueError("an output of open size is made by no partition")
    for entry in facts["partitions"]:
        if not all(isinstance(row, list) and len(row) == 2 for row in _list(entry["ops"])):
            raise ValueError("operators are no pairs of kinds and names")
    if not all(isinstance(row, list) and len(row) == _ROW for row in _list(facts["placement"])):
        raise ValueError("the placement is no table")
    counts = [facts.get(name, 0) for name in ("operators", "file_bytes")]
    counts += dict(facts.get("operators_of", {})).values()
    if not all(_is_integer(count, 0, _LARGEST_SIZE) for count in counts):
        raise ValueError("the size of the file, or a count of its operators, is no number")


def _check_values(values: Sequence[Mapping[str, Any]]) -> None:
    for fields in values:
        _check_value(fields)
        if not _is_integer(fields.get("continues", -1), -1, len(values) - 1):
            raise ValueError("a value continues what is no value")


def _check_value(fields: Mapping[str, Any]) -> None:
    shape, dtype, initial = _list(fields["shape"]), fields["dtype"], fields.get("initial")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError("a value has a type that is none")
    if len(shape) > _MOST_DIMENSIONS or not all(_is_integer(n, -1, _LARGEST_SIZE) for n in shape):
        raise ValueError("a value has a shape that is none")
    if not all(_is_integer(axis, 0, len(shape) - 1) for axis in _list(fields["open"])):
        raise ValueError("a value is open in dimensions that it has not")
    numbers = (*_list(fields["scale"]), *_list(fields["zero_point"]))
    if not all(isinstance(number, (int, float)) for number in numbers):
        raise ValueError("a value is quantised by what is no number")
    if initial is not None and not isinstance(initial, str):
        raise ValueError("a value starts as what is no text")


def _list(found: object) -> list[Any]:
    if not isinstance(found, list):
        raise TypeError("a list was expected")
    return found


def _is_integer(number: object, least: int, most: int) -> bool:
    return type(number) is int and least <= number <= most
