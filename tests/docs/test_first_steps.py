"""The newcomer's exercises: the files that are named change and no others, and the result works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.how_to import ROOT, apply, blocks, blocks_in, copy_package, run_python, run_tests

TEXT = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
_SECTION = re.compile(r"^## .*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_EXERCISE = re.compile(r"<!-- exercise: (\S+) -->\n((?:\|.*\n)+)")
_PLACE = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
SECTIONS = {found[1]: text for text in _SECTION.findall(TEXT) if (found := _EXERCISE.search(text))}


def places(section: str) -> set[str]:
    """The files that the table of an exercise names."""
    found = _EXERCISE.search(section)
    assert found is not None
    return set(_PLACE.findall(found[2]))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that a contributor would commit."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def make_docs(folder: Path) -> None:
    done = run_python(folder, "tools/make_docs.py")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how_to", SECTIONS)
def test_an_exercise_touches_what_it_names_and_works(how_to: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="the exercises compile C")
    copy_package(tmp_path)
    make_docs(tmp_path)
    before = contents(tmp_path)
    apply(blocks(ROOT / "docs" / f"{how_to}.md"), tmp_path)  # whose tests test_how_tos.py runs
    tests = apply(blocks_in(SECTIONS[how_to]), tmp_path)
    make_docs(tmp_path)
    after = contents(tmp_path)
    assert {path for path in after if before.get(path) != after[path]} == places(SECTIONS[how_to])
    assert before.keys() <= after.keys()
    done = run_tests(tests, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout


def test_there_is_an_exercise_for_operators_passes_and_formats() -> None:
    assert SECTIONS.keys() == {"adding-an-operator", "writing-a-pass", "adding-a-file-format"}
