"""Carries out a how-to: its files and edits in a copy of the package, then its tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import child

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"<!-- (file|edit): (\S+) -->\n```\w+\n(.*?)```\n", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A marked block of a page: a whole file, or a change of one as a diff without numbers."""

    action: str
    path: str
    text: str


def blocks(page: Path) -> list[Block]:
    """The marked blocks of a page in order."""
    return blocks_in(page.read_text(encoding="utf-8"))


def blocks_in(text: str) -> list[Block]:
    """The marked blocks of a page, or of a part of one, in order."""
    return [Block(*found) for found in _BLOCK.findall(text)]


def carry_out(page: Path, folder: Path) -> list[Path]:
    """Copy the package to a folder and do there what the page says; the tests that it makes."""
    copy_package(folder)
    return apply(blocks(page), folder)


def copy_package(folder: Path) -> None:
    """Copy what a contributor works on to a folder."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("circlet", "tests", "docs", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)


def apply(steps: Sequence[Block], folder: Path) -> list[Path]:
    """Do in a copy of the package what blocks say; the tests that they make."""
    for block in steps:
        path = folder / block.path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = block.text if block.action == "file" else edited(path.read_text(), block)
        path.write_text(text, encoding="utf-8")
    return [folder / b.path for b in steps if Path(b.path).name.startswith("test_")]


def edited(text: str, block: Block) -> str:
    """A file after a change; the lines that it names must stand there exactly once."""
    lines = block.text.splitlines()
    before = "\n".join(line[1:] for line in lines if line[:1] != "+")
    after = "\n".join(line[1:] for line in lines if line[:1] != "-")
    assert text.count(before) == 1, f"{block.path} holds {text.count(before)} times: {before!r}"
    return text.replace(before, after)


def run_tests(tests: list[Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run tests of such a folder, with the package that lies there."""
    return run_python(folder, "-m", "pytest", "-p", "no:cacheprovider", *map(str, tests))


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start Python in such a folder."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=child.environment(folder),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
