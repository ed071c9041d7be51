"""Files and dotted names that docstrings quote are there: renaming a thing orphans none of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path for room in ("circlet", "bench", "tools") for path in (ROOT / room).rglob("*.py")
)
_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NAMES = ("id", "attr", "arg", "name")
_QUOTED = re.compile(r"`([^`\s]+)`")
_FILE = re.compile(r"[\w./-]+\.(?:py|h|c|md|json|toml)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def _documented(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the docstrings of a file, those of its definitions included."""
    for node in _nodes(path):
        if isinstance(node, _DEFINITIONS) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def _names() -> frozenset[str]:
    """What the sources define, assign, take or read under a name, and their modules."""
    found = {"circlet"}
    for path in SOURCES:
        found |= {path.stem, path.parent.name}
        for node in _nodes(path):
            named = vars(node)
            found.update(named[field] for field in _NAMES if field in named)
    return frozenset(filter(None, found))


@cache
def _files() -> frozenset[str]:
    rooms = ("circlet", "bench", "tools", "tests", "docs")
    return frozenset(
        path.relative_to(ROOT).as_posix() for room in rooms for path in (ROOT / room).rglob("*.*")
    )


def _is_there(quoted: str) -> bool:
    if _FILE.fullmatch(quoted):
        return any(name == quoted or name.endswith(f"/{quoted}") for name in _files())
    if _DOTTED.fullmatch(quoted):
        return all(part in _names() for part in quoted.split("."))
    return True


@pytest.mark.parametrize("room", ["circlet", "bench", "tools"])
def test_what_docstrings_quote_is_there(room: str) -> None:
    orphans = [
        f"{path.relative_to(ROOT)}:{line}: {quoted}"
        for path in SOURCES
        if path.is_relative_to(ROOT / room)
        for line, text in _documented(path)
        for quoted in _QUOTED.findall(text)
        if not _is_there(quoted)
    ]
    assert not orphans


@pytest.mark.parametrize(
    "gone", ["no_such.py", "lower/no_such.h", "Context.no_such", "circlet.no_such"]
)
def test_what_is_gone_is_found(gone: str) -> None:
    assert not _is_there(gone)
