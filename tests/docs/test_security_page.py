"""Every promise of docs/security.md names tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def promises() -> list[tuple[str, list[str]]]:
    table = PAGE.partition("<!-- promises: begin -->")[2].partition("<!-- promises: end -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[3:] if line]
    return [(row[0], re.findall(r"`([^`]+)`", row[-1])) for row in rows if "**" not in row[0]]


@pytest.mark.parametrize(("promise", "tests"), promises(), ids=lambda value: str(value)[:40])
def test_a_promise_names_tests_that_there_are(promise: str, tests: list[str]) -> None:
    assert tests, promise
    for named in tests:
        path, _, name = named.partition("::")
        place = ROOT / "tests" / path
        assert place.exists(), named
        if name:
            tree = ast.parse(place.read_text(encoding="utf-8"))
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_there_are_promises() -> None:
    assert len(promises()) > 15
