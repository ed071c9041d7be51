"""The tour is short, stands alone, and its answers agree."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests import child

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "docs" / "tour.py"


@pytest.mark.smoke
def test_the_tour_ends_with_answers_that_agree() -> None:
    pytest.importorskip("ziglang", reason="the tour compiles C")
    done = subprocess.run(
        [sys.executable, str(TOUR)],
        env=child.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "read 7 operators: CONV_2D DEPTHWISE_CONV_2D" in done.stdout
    assert "flatten+classifier" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("our C and Circlet differ by at most")


def test_the_tour_uses_the_package_only_to_compare() -> None:
    imports = [
        node.module
        for node in ast.walk(ast.parse(TOUR.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    ]
    assert imports.count("circlet") == 1
    assert not any(name and name.startswith("circlet.") for name in imports)


def test_the_tour_fits_one_sitting() -> None:
    assert len(TOUR.read_text(encoding="utf-8").splitlines()) < 500
