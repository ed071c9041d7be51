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
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_NO_CODE = re.compile(
    r'"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|'
    r"'(?:\\.|[^'\\\n])*'|#[^\n]*",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(r"`([^`\s]+)`")
_FILE = re.compile(r"[\w./-]+\.(?:py|h|c|md|json|toml)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def _documented(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the docstrings of a file, those of its definitions included."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _DEFINITIONS) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text
        for field in _BLOCKS:
            waiting += getattr(node, field, ())


@cache
def _names() -> frozenset[str]:
    """The words of the sources outside of texts and comments, and their modules."""
    found = {"circlet"}
    for path in SOURCES:
        code = _NO_CODE.sub(" ", path.read_text(encoding="utf-8"))
        found |= {path.stem, path.parent.name, *_WORD.findall(code)}
    return frozenset(found)


@cache
def _files() -> frozenset[str]:
    """The files, by their paths and by all ends of these."""
    rooms = ("circlet", "bench", "tools", "tests", "docs")
    paths = (path.relative_to(ROOT) for room in rooms for path in (ROOT / room).rglob("*.*"))
    ends = (path.parts[start:] for path in paths for start in range(len(path.parts)))
    return frozenset(map("/".join, ends))


def _is_there(quoted: str) -> bool:
    if _FILE.fullmatch(quoted):
        return quoted in _files()
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
