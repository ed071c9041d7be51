"""Imports point one way: a room of the package imports lower rooms only."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "circlet"

# Lowest first; rooms of one row do not know each other, apart from those of the first.
LAYERS = (
    (
        *("errors", "limits", "options", "config", "deadline"),
        *(
            "struct",
            "stored",
            "garbage",
            "user_codes",
            "sample",
            "forking",
            "cached",
            "scratch",
            "escape",
            "words",
            "json_files",
            "regular_files",
            "progress",
            "leash",
            "apart",
            "small_dtypes",
        ),
    ),
    ("ir", "target"),
    ("ops",),
    ("formats",),
    ("passes",),
    ("quantize", "plan", "placement"),
    ("artifact",),
    ("backends",),
    ("compiler",),
    ("runtime",),
    ("profiling", "comparison", "train"),
    ("costs",),
    ("pareto",),
    ("fleet",),
    ("report",),
    ("frontends",),
    ("commands", "onnx_backend", "onnxruntime"),
    ("cli",),
)
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}
FACES = {"__init__", "__main__"}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(source: str) -> Iterator[tuple[int, str]]:
    """Line and module of every import of the package, those inside functions included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = [f"{module}.{alias.name}" for alias in node.names]
            yield from (
                (node.lineno, name) for name in (names if module == "circlet" else [module])
            )


def is_allowed(importer: str, module: str) -> bool:
    parts = module.split(".")
    if parts[0] == "":
        return False
    if parts[0] != "circlet" or len(parts) == 1:
        return parts[0] != "circlet"
    target = parts[1]
    if target in (importer, "__version__"):
        return True
    lower = HEIGHT.get(target, len(LAYERS)) < HEIGHT[importer]
    return lower or HEIGHT.get(target) == HEIGHT[importer] == 0


SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if room_of(path) not in FACES)
ROOMS = sorted(set(map(room_of, SOURCES)))


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_down(room: str) -> None:
    assert room in HEIGHT, f"{room} has no place in LAYERS"
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in SOURCES
        if room_of(path) == room
        for line, name in imported(path.read_text(encoding="utf-8"))
        if not is_allowed(room, name)
    ]
    assert not wrong, f"imports from above, beside or relatively: {wrong}"


@pytest.mark.parametrize(
    ("importer", "source", "allowed"),
    [
        ("ops", "from circlet.ir import Op", True),
        ("ops", "import numpy", True),
        ("ir", "from circlet.ops import find", False),
        ("ir", "def f():\n    import circlet.ops.opdef", False),
        ("formats", "from circlet.passes import make", False),
        ("runtime", "from circlet import cli", False),
        ("runtime", "from circlet import errors", True),
        ("ir", "from . import graph", False),
    ],
)
def test_table_is_applied(importer: str, source: str, allowed: bool) -> None:
    assert all(is_allowed(importer, name) for _, name in imported(source)) is allowed


TABLE = "circlet.backends.cpu.lower"
"""A package that imports all of its modules, which count as one here."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def imported_at_once(path: Path, modules: Collection[str]) -> Iterator[str]:
    """Modules of the package that a file imports as soon as it is imported itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_any_module_may_be_imported_first() -> None:
    modules = {module_of(path): path for path in PACKAGE.rglob("*.py")}
    needs: dict[str, set[str]] = {}
    for name, path in modules.items():
        for other in imported_at_once(path, modules):
            pair = [TABLE if each.startswith(f"{TABLE}.") else each for each in (name, other)]
            if other in modules and pair[0] != pair[1] and not name.startswith(f"{other}."):
                needs.setdefault(pair[0], set()).add(pair[1])
    TopologicalSorter(needs).prepare()  # tells the modules of a cycle
