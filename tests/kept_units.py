"""Equal C is compiled once: by all tests and workers of a run, and from run to run.

What a compiler makes follows from the text, the command, and the headers, which are all in the key;
comments, which name the operators of a network, are not. A test that brings a cache folder or a
configuration of its own compiles anew, unless it uses the fixture `units_for_any_cache`.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from unittest import mock

from circlet.backends.cpu import toolchain
from circlet.backends.cpu.c_compiler import Compiler
from circlet.backends.cpu.flags import unit_flags
from circlet.backends.cpu.processes import Compilers
from circlet.backends.cpu.toolchain import UnitSource
from circlet.regular_files import write_file

CompileOne = Callable[[Path, UnitSource, Compiler, Compilers, dict[str, str]], bytes]
KEPT_S = 3 * 24 * 3600
_COMMENT = re.compile(r"^/\*[^\n]*\*/$", re.MULTILINE)


def keeping(folder: Path, circlet_cache: Path) -> CompileOne:
    """A compile step that keeps its results in a folder, for tests with a given cache."""
    compile_one: CompileOne = toolchain._compile_one

    def compile_or_find(
        scratch: Path,
        unit: UnitSource,
        compiler: Compiler,
        compilers: Compilers,
        environment: dict[str, str],
    ) -> bytes:
        files = Path(environment["ZIG_GLOBAL_CACHE_DIR"])
        if not any(map(files.is_relative_to, (circlet_cache, scratch.parent))):
            return compile_one(scratch, unit, compiler, compilers, environment)
        command = (*compiler.command, *unit_flags(unit.target, compiler.family, unit.flags))
        described = _surroundings(compiler.command[0]) + repr(command)
        kept = folder / _digest(described.encode(), _code(unit.text).encode())
        if not kept.exists():
            write_file(kept, compile_one(scratch, unit, compiler, compilers, environment))
        os.utime(kept)
        return kept.read_bytes()

    return compile_or_find


@contextmanager
def keeping_units(folder: Path) -> Iterator[None]:
    """Compile equal C once, and keep what was compiled in a folder; for programs of tests."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    forget_unused(folder)
    with (
        tempfile.TemporaryDirectory() as cache,
        mock.patch.dict(os.environ, {"CIRCLET_CACHE_DIR": cache}),
        mock.patch.object(toolchain, "_compile_one", keeping(folder, Path(cache))),
    ):
        yield


def forget_unused(folder: Path) -> None:
    """Delete what no run of the last days has used."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process has put it in place, or deleted it
            if path.stat().st_mtime < time.time() - KEPT_S:
                path.unlink()


def _code(text: str) -> str:
    """The text without the comments that have lines of their own; these stay, empty."""
    return _COMMENT.sub("", text)


@cache
def _surroundings(program: str) -> str:
    """What a compiler and the headers that it reads are, as a string."""
    facts = Path(shutil.which(program) or program).stat()
    headers = (
        part
        for folder in (toolchain.KERNELS_DIR, toolchain.RUNTIME_DIR)
        for path in sorted(folder.iterdir())
        if path.is_file()
        for part in (path.name.encode(), path.read_bytes())
    )
    return f"{facts.st_size}:{facts.st_mtime_ns}:{_digest(*headers)}"


def _digest(*parts: bytes) -> str:
    state = blake2b(digest_size=20)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()
