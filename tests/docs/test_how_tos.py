"""Each how-to does what it says: its files are made, its changes apply, its tests pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.how_to import ROOT, Block, blocks, carry_out, edited, run_tests

PAGES = [
    "adding-an-operator",
    "adding-a-file-format",
    "adding-a-kernel",
    "adding-a-backend",
    "writing-a-pass",
]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_worked_example_works(page: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="the examples compile C")
    tests = carry_out(ROOT / "docs" / f"{page}.md", tmp_path)
    assert tests
    done = run_tests(tests, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_code_is_carried_out(page: str) -> None:
    path = ROOT / "docs" / f"{page}.md"
    fences = [line for line in path.read_text(encoding="utf-8").splitlines() if line[:3] == "```"]
    assert len(fences) == 2 * len(blocks(path))


def test_a_change_that_no_longer_fits_is_noticed() -> None:
    block = Block("edit", "x.py", " one\n+two\n")
    assert edited("zero\none\nthree\n", block) == "zero\none\ntwo\nthree\n"
    with pytest.raises(AssertionError, match="0 times"):
        edited("zero\n", block)
