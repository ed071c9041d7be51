"""What an emulated program executes between its marks: instructions, bytes loaded and stored."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.emulated.emulator import FOLDER, TIMEOUT_S, EmulationError, major_version
from circlet.backends.cpu.c_compiler import find_compiler


@dataclass(frozen=True)
class Counts:
    """What one run took.

    Attributes:
        instructions: Executed, whatever they do.
        loaded: Bytes that loads read, from a cache or from memory.
        stored: Bytes that stores wrote.
    """

    instructions: int
    loaded: int
    stored: int

    @property
    def moved(self) -> int:
        """Bytes loaded and stored."""
        return self.loaded + self.stored


@dataclass(frozen=True)
class Block:
    """Instructions that are executed one after the other.

    Attributes:
        address: Of the first in the emulated process.
        executed: Instructions executed in it between the first mark and the last.
    """

    address: int
    executed: int


def build_plugin(program: str, path: Path) -> Path:
    """Build the plugin of a program of qemu's that counts."""
    version = 1 if major_version(program) < 9 else 2
    flags = ["-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wall", "-Werror"]
    command = [*find_compiler().command, *flags, f"-DPLUGIN_VERSION={version}"]
    source = str(FOLDER / "count.c")
    subprocess.run([*command, source, "-o", str(path)], check=True, timeout=TIMEOUT_S)
    return path


def counting(plugin: Path, to: Path, *, blocks: bool = False) -> list[str]:
    """Options of qemu that have a program's runs counted, into a file."""
    return ["-plugin", f"{plugin},to={to}" + (",blocks=on" if blocks else "")]


def counts_of_runs(path: Path) -> list[Counts]:
    """What the file says of each run.

    Raises:
        EmulationError: No run was counted.
    """
    totals = [tuple(map(int, words)) for kind, *words in _lines(path) if kind == "mark"]
    if len(totals) < 2:
        raise EmulationError("qemu's plugin counted no run")
    return [Counts(*(b - a for a, b in zip(*both, strict=True))) for both in pairwise(totals)]


def blocks_of(path: Path) -> list[Block]:
    """The blocks that were executed, those with most instructions first."""
    rows = [words for kind, *words in _lines(path) if kind == "block"]
    found = [Block(int(at, 16), int(count) * int(runs)) for at, count, runs in rows]
    return sorted(found, key=lambda block: -block.executed)


def _lines(path: Path) -> Iterator[list[str]]:
    return (line.split() for line in path.read_text(encoding="ascii").splitlines())
