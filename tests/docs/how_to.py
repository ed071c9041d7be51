"""Carries out a how-to: its files and edits in a copy of the package, then its tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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
    return [Block(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def carry_out(page: Path, folder: Path) -> list[Path]:
    """Copy package and tests to a folder, do there what the page says; the tests that it makes."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("circlet", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for block in blocks(page):
        path = folder / block.path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = block.text if block.action == "file" else edited(path.read_text(), block)
        path.write_text(text, encoding="utf-8")
    return [folder / b.path for b in blocks(page) if Path(b.path).name.startswith("test_")]


def edited(text: str, block: Block) -> str:
    """A file after a change; the lines that it names must stand there exactly once."""
    lines = block.text.splitlines()
    before = "\n".join(line[1:] for line in lines if line[:1] != "+")
    after = "\n".join(line[1:] for line in lines if line[:1] != "-")
    assert text.count(before) == 1, f"{block.path} holds {text.count(before)} times: {before!r}"
    return text.replace(before, after)


def run_tests(tests: list[Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run tests of such a folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    options = ["--import-mode=importlib", "-W", "error", "--rootdir", str(folder)]
    return subprocess.run(
        [*command, *options, *map(str, tests)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
