"""Only the IR, the readers of files and the rewriter write the ops of a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "circlet"
MAY = ("ir/", "formats/", "passes/rewriter.py")
CHANGES = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}
SOURCES = sorted(
    path for path in PACKAGE.rglob("*.py") if not str(path.relative_to(PACKAGE)).startswith(MAY)
)
ROOMS = sorted({path.relative_to(PACKAGE).parts[0] for path in SOURCES})


def is_ops(node: ast.AST) -> bool:
    """Whether an expression is the `ops` of something other than `self`, or part of them."""
    if isinstance(node, ast.Subscript):
        return is_ops(node.value)
    owner = node.value if isinstance(node, ast.Attribute) and node.attr == "ops" else None
    return owner is not None and not (isinstance(owner, ast.Name) and owner.id == "self")


def writes(source: str) -> Iterator[int]:
    """The lines that assign ops, or change their list in place."""
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Attribute) and node.attr in CHANGES:
            targets = [node.value]
        yield from (target.lineno for target in targets if is_ops(target))


@pytest.mark.parametrize("room", ROOMS)
def test_ops_are_rewritten_by_the_rewriter(room: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in SOURCES
        if path.relative_to(PACKAGE).parts[0] == room
        for line in writes(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("graph.ops[:] = []", True),
        ("graph.ops = []", True),
        ("graph.ops += [op]", True),
        ("self._graph.ops[1:2] = new", True),
        ("graph.ops.append(op)", True),
        ("del model.main.ops[0]", True),
        ("self.ops: list[Op] = []", False),
        ("ops = list(graph.ops)", False),
        ("graph.ops.index(op)", False),
    ],
)
def test_writes_are_found(source: str, is_found: bool) -> None:
    assert bool(list(writes(source))) is is_found
