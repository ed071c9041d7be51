"""Carries out the code of pages and keeps what it printed beside it.

    python tools/run_pages.py [--check] [PAGE...]

On the pages of `PAGES`, every block of `sh` or `python` is executed, in order and in a folder where
the embedded sample lies, and the corpora's models and data where a page says that it needs them. A
block of `output` directly behind one holds what it printed on standard output. A comment before a
block changes what is expected:

    <!-- exits with 1 -->    the command ends so, and its standard error is shown
    <!-- varies -->          what is printed depends on the machine; only that it works is checked
    <!-- not run: why -->    the block is left alone

Without --check the outputs are renewed where they differ by more than times, sizes and targets.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CORPORA = ROOT.parent / "shared" / "corpora"
NEEDS_CORPORA = "<!-- needs: corpora -->"
PAGES = (
    DOCS / "getting-started.md",
    DOCS / "commands.md",
    DOCS / "answers.md",
    DOCS / "compare-and-cut.md",
    DOCS / "profiling.md",
    DOCS / "memory.md",
    *sorted((DOCS / "how-to").glob("*.md")),
)
_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>exits with \d+|varies|not run: [^>]*?) -->\n)?"
    r"```(?P<language>sh|python)\n(?P<code>.*?)```\n"
    r"(?P<shown>\n?```output\n(?P<output>.*?)```\n)?",
    re.DOTALL,
)
_TARGET = r"(?:x86_64|aarch64|armv7|riscv64)\S*"
_SAME = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "HASH"),
    (re.compile(rf"\b{_TARGET}(?: {_TARGET})*"), "TARGET"),
    (re.compile(r"\d\.\d{9,}"), "#"),
    (re.compile(r"\b(?:compiled|found in the cache) in"), "opened in"),
    (re.compile(r"\d[\d,.]*\s*(?:ns|us|µs|ms|s)\b"), "# s"),
    (re.compile(r"\d[\d,.]*\s*(?=(?:bytes|[KMG]i?B)\b)"), "# "),
    (re.compile(r"\d+ threads?"), "# threads"),
    (re.compile(r"\((?:\S+ to \S+|# s to # s)\)"), "(# to #)"),
    (re.compile(r"[ \t]+"), " "),
)


class PageError(Exception):
    """The code of a page did not do what the page says."""


@dataclass(frozen=True)
class Block:
    """A block of code of a page.

    Attributes:
        mark: What the comment before it says, "" where there is none.
        language: "sh" or "python".
        code: What is executed.
        output: What the page says that it prints; None where it says nothing.
    """

    mark: str
    language: str
    code: str
    output: str | None

    @property
    def is_run(self) -> bool:
        """Whether it is executed."""
        return not self.mark.startswith("not run")

    @property
    def exit_code(self) -> int:
        """With what its commands are to end."""
        return int(self.mark.rpartition(" ")[2]) if self.mark.startswith("exits") else 0


def blocks(text: str) -> Iterator[Block]:
    """The blocks of code of a page in order."""
    for found in _BLOCK.finditer(text):
        yield Block(found["mark"] or "", found["language"], found["code"], found["output"])


def needs_corpora(page: Path) -> bool:
    """Whether a page's code reads models or data of the corpora."""
    return NEEDS_CORPORA in page.read_text(encoding="utf-8")


def carried_out(page: Path) -> str:
    """A page with the outputs that its code prints now.

    Raises:
        PageError: Code of it failed, or ended in another way than it says.
    """
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="circlet-page-") as name, _inside(Path(name)):
        _lay_out(Path(name), needs_corpora(page))
        names: dict[str, object] = {"__name__": "__main__"}
        return _BLOCK.sub(lambda found: _renewed(found, names, page), text)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _lay_out(folder: Path, corpora: bool) -> None:
    sources = sorted((ROOT / "circlet" / "sample").glob("digits_*.circle"))
    sources.append(ROOT / "circlet" / "sample" / "labels.txt")
    if corpora:
        sources += [*sorted((CORPORA / "models").iterdir()), *sorted((CORPORA / "data").iterdir())]
    for source in sources:
        if not (folder / source.name).exists():
            (folder / source.name).symlink_to(source)


def _renewed(found: re.Match[str], names: dict[str, object], page: Path) -> str:
    (block,) = blocks(found[0])
    if not block.is_run:
        return found[0]
    printed = _printed(block, names, page)
    if not is_stale(block, printed):
        return found[0]
    return found[0].replace(found["shown"], f"\n```output\n{printed}```\n")


def is_stale(block: Block, printed: str) -> bool:
    """Whether a page is to show what its code printed now."""
    if block.output is None or (block.mark == "varies" and block.output):
        return False
    return not same(block.output, printed)


def _printed(block: Block, names: dict[str, object], page: Path) -> str:
    if block.language == "sh":
        return _plain(_run_shell(block, page))
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(block.code, str(page), "exec", dont_inherit=True), names)
    except Exception as error:
        raise PageError(f"{page.name}: {error!r} in\n{block.code}") from error
    return _plain(printed.getvalue())


def _run_shell(block: Block, page: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="circlet-bin-") as programs:
        for name, start in (("circlet", "-m circlet"), ("python", "")):
            program = Path(programs) / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {start} "$@"\n')
            program.chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        modules = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.code],
            env={**os.environ, "PATH": path, "PYTHONPATH": modules, "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    if done.returncode != block.exit_code:
        ended = f"ended with {done.returncode}, not {block.exit_code}"
        raise PageError(f"{page.name}: {ended}\n{block.code}{done.stdout}{done.stderr}")
    return done.stdout + (done.stderr if block.exit_code else "")


def _plain(printed: str) -> str:
    """What was printed, without spaces at ends of lines and with no path of this machine."""
    for path, name in ((str(ROOT), "circlet"), (sys.prefix, ".venv"), (str(Path.home()), "~")):
        printed = printed.replace(path, name)
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in lines)


def same(one: str, other: str) -> bool:
    """Whether two outputs differ in nothing but times, sizes, targets and the space between."""
    return [_common(line) for line in one.splitlines()] == [
        _common(line) for line in other.splitlines()
    ]


def _common(line: str) -> str:
    for pattern, put in _SAME:
        line = pattern.sub(put, line)
    return line.strip()


def main() -> int:
    """Renew pages, or name those that are not current."""
    known = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    known.add_argument("--check", action="store_true", help="write nothing")
    known.add_argument("pages", nargs="*", type=Path, help="default: all")
    options = known.parse_args()
    stale = 0
    for page in options.pages or PAGES:
        if needs_corpora(page) and not CORPORA.exists():
            sys.stdout.write(f"{page.name}: left alone, no corpora at {CORPORA}\n")
            continue
        text = carried_out(page.resolve())
        if text != page.read_text(encoding="utf-8"):
            stale += 1
            sys.stdout.write(f"{page.name}: {'not current' if options.check else 'written'}\n")
            if not options.check:
                page.write_text(text, encoding="utf-8")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
