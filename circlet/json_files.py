"""JSON files that users hand over, read within bounds and with errors in their own terms."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from circlet.errors import CircletError, InputError
from circlet.regular_files import StrPath, open_regular

T = TypeVar("T")

_MOST_BYTES = 1 << 28


def read_json(
    path: StrPath,
    what: str,
    convert: Callable[[Any], T],
    fix: str = "",
    error: type[CircletError] = InputError,
) -> T:
    """What a file of at most 256 MiB holds.

    Args:
        path: The file.
        what: What it is to hold, for errors, such as "a placement".
        convert: Makes the answer of parsed JSON; what it raises of KeyError, IndexError, TypeError,
            ValueError, AttributeError and OverflowError says that the file holds something else.
        fix: What a user can do about a file that holds something else.
        error: The class of that error.

    Raises:
        FileError: It cannot be read.
        InputError: It is too large, no JSON, or holds something else; or `error` in its place.
    """
    with open_regular(path, what) as file:
        data = file.read(_MOST_BYTES + 1)
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        return convert(_parsed(data))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as wrong:
        why = reason_of(wrong)
        raise error(f"a file does not hold {what}", where=str(path), why=why, fix=fix) from None


def check_format(found: Any, name: str, version: int) -> None:
    """See that parsed JSON is an object of a format and version of ours; ValueError where not."""
    said = found if isinstance(found, dict) else {}
    if (said.get("format"), said.get("version")) != (name, version):
        raise ValueError(f"it is not of the format {name}, version {version}")


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None


def reason_of(error: Exception) -> str:
    """What an error that a conversion raised says of the file, in words."""
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}"
    if isinstance(error, ValueError):
        return str(error)
    return f"something in it is of another kind than expected: {error}"
