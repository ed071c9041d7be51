"""Names of entries in archives for names of tensors, which may be those of paths or worse."""

from __future__ import annotations

import re
from collections.abc import Sequence

NAMES_ENTRY = "names.json"
_LONGEST = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+=@()-]")
_FIRST = re.compile(r"^[.-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def entry_names(names: Sequence[str]) -> list[str]:
    """A file name for each: without separators, in ASCII, short, and apart in upper case too.

    A name that is all that already stays as it is.
    """
    kept = {name.upper() for name in names if _plain(name) == name}
    found: dict[str, None] = {}
    taken: set[str] = set()
    for name in names:
        plain = _plain(name)
        forbidden = taken if plain == name else taken | kept
        entry = _numbered(plain, forbidden)
        taken.add(entry.upper())
        found[entry] = None
    return list(found)


def _plain(name: str) -> str:
    plain = _FIRST.sub("_", _UNSAFE.sub("_", name))[:_LONGEST].replace("..", "__")
    return f"_{plain}" if not plain or _RESERVED.fullmatch(plain) else plain


def _numbered(plain: str, taken: set[str]) -> str:
    entry, number = plain, 2
    while entry.upper() in taken:
        end = f"-{number}"
        entry, number = f"{plain[: _LONGEST - len(end)]}{end}", number + 1
    return entry
