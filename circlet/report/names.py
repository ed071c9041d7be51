"""The hierarchy in operators' names: which groups a graph is shown in.

"block_1/conv/Conv2D" is in the groups "block_1" and "conv". Groups that all operators are in, and
groups of one operator, say nothing and are left out; where one group holds very many, they are
gathered, in order, into groups of a size that can be looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

Path = tuple[str, ...]
MOST_TOGETHER = 250
"""Most operators or groups of one group that are shown side by side."""

_GATHERED = 40
_SEPARATORS = ("/", "::", ".")
_FEWEST_SHARE = 0.5


def paths(names: Sequence[str]) -> list[Path]:
    """The groups of each operator, the outermost first, for names in the order of execution."""
    firsts = [first_name(name) for name in names]
    separator = _separator(firsts)
    found = [_groups(name, separator) for name in firsts]
    return _gathered(_without_lone(_without_common(found)))


def first_name(name: str) -> str:
    """The first of the names that a converter or a pass joined."""
    return re.split(r"[;+]", name, maxsplit=1)[0]


def _separator(names: Sequence[str]) -> str:
    """What names are divided by: what half of them have, or nothing."""
    for separator in _SEPARATORS:
        if names and sum(separator in name for name in names) >= _FEWEST_SHARE * len(names):
            return separator
    return ""


def _groups(name: str, separator: str) -> Path:
    if not separator:
        return ()
    return tuple(part for part in name.split(separator)[:-1] if part)


def _without_common(found: Sequence[Path]) -> list[Path]:
    """Paths without the groups that all operators with a path are in."""
    own = [path for path in found if path]
    common = 0
    while own and all(len(path) > common and path[common] == own[0][common] for path in own):
        common += 1
    return [path[common:] for path in found]


def _without_lone(found: Sequence[Path]) -> list[Path]:
    """Paths without groups of one operator; a group of one group and nothing else joins it."""
    counts = Counter(path[:depth] for path in found for depth in range(1, len(path) + 1))
    return [_kept(path, counts) for path in found]


def _kept(path: Path, counts: Counter[Path]) -> Path:
    kept: list[str] = []
    before = ""
    for depth in range(1, len(path) + 1):
        count, label = counts[path[:depth]], before + path[depth - 1]
        if count < 2:
            break
        if depth < len(path) and counts[path[: depth + 1]] == count:
            before = f"{label}/"
            continue
        kept.append(label)
        before = ""
    return tuple(kept)


def _gathered(found: Sequence[Path]) -> list[Path]:
    """Paths with groups of a number of neighbours where one group holds too many."""
    children: dict[Path, dict[Path | int, None]] = {}
    for index, path in enumerate(found):
        for depth in range(len(path)):
            children.setdefault(path[:depth], {})[path[: depth + 1]] = None
        children.setdefault(path, {})[index] = None
    crowded = {
        path: _ranges(list(inner)) for path, inner in children.items() if len(inner) > MOST_TOGETHER
    }
    return [_through(index, path, crowded) for index, path in enumerate(found)]


def _ranges(children: Sequence[Path | int]) -> dict[Path | int, Path]:
    """For each child the groups of neighbours that it comes into, the outermost first."""
    into: dict[Path | int, Path] = dict.fromkeys(children, ())
    size = _GATHERED
    while len(children) > size // _GATHERED * MOST_TOGETHER:
        for number, child in enumerate(children):
            first = number // size * size
            label = f"{first + 1} to {min(first + size, len(children))}"
            into[child] = (label, *into[child])
        size *= _GATHERED
    return into


def _through(index: int, path: Path, crowded: dict[Path, dict[Path | int, Path]]) -> Path:
    whole: list[str] = []
    for depth in range(len(path) + 1):
        child: Path | int = path[: depth + 1] if depth < len(path) else index
        whole += crowded.get(path[:depth], {}).get(child, ())
        if depth < len(path):
            whole.append(path[depth])
    return tuple(whole)
