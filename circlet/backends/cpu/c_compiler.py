"""Finds the C compiler and names it for cache keys, without starting it; cheap to import."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.machinery import PathFinder

from circlet.config import Config
from circlet.errors import CompilerMissingError
from circlet.struct import Struct


class Compiler(Struct):
    """A C compiler: the command that starts it and the family that decides its flags."""

    command: tuple[str, ...]
    family: str

    def version(self) -> str:
        """What the compiler calls itself; starts it, so only `doctor` should ask."""
        ask = "version" if self.family == "zig" else "--version"
        return f"{self.family} {_first_output_line((self.command[0], ask))}"


def find_compiler(config: Config | None = None) -> Compiler:
    """The compiler of `CIRCLET_CC`, else of the `ziglang` package.

    Raises:
        CompilerMissingError: There is neither.
    """
    chosen = (config or Config.from_environment()).compiler
    return _chosen_compiler(chosen) if chosen else _packaged_compiler()


def compiler_identity(config: Config | None = None) -> str:
    """A string for cache keys which changes when the compiler does; starts no process."""
    config = config or Config.from_environment()
    command = _split(config.compiler) if config.compiler else find_compiler(config).command
    path = _program(command[0])
    if path is None:
        raise _not_a_program(command[0], is_chosen=bool(config.compiler))
    try:
        stat = os.stat(path)
    except OSError as error:
        raise missing_compiler(f"{path}: {error.strerror}") from error
    return f"{' '.join(command)}:{stat.st_size}:{stat.st_mtime_ns}"


def _packaged_compiler() -> Compiler:
    spec = PathFinder.find_spec("ziglang")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    binaries = [os.path.join(folder, "zig") for folder in folders]
    found = next(filter(os.path.isfile, binaries), None)
    if found is None:
        raise missing_compiler("the Python package ziglang is not installed")
    return Compiler((found, "cc"), "zig")


@lru_cache(maxsize=8)
def _chosen_compiler(text: str) -> Compiler:
    command = _split(text)
    if _program(command[0]) is None:
        raise _not_a_program(command[0], is_chosen=True)
    return Compiler(command, _family(command))


def _not_a_program(name: str, *, is_chosen: bool) -> CompilerMissingError:
    by = "CIRCLET_CC names" if is_chosen else "the Python package ziglang has"
    return missing_compiler(f"{by} {name!r}, which is not a program")


def _program(name: str) -> str | None:
    """The path of a program that is named with its folder or found on the search path."""
    if os.sep in name:
        return name if os.access(name, os.X_OK) and not os.path.isdir(name) else None
    import shutil

    return shutil.which(name)


def _split(text: str) -> tuple[str, ...]:
    import shlex

    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise missing_compiler(f"CIRCLET_CC cannot be read: {error}") from error
    if not command:
        raise missing_compiler("CIRCLET_CC is blank")
    return command


def _family(command: tuple[str, ...]) -> str:
    if os.path.basename(command[0]) == "zig" and "cc" in command:
        return "zig"
    return "clang" if "clang" in _first_output_line((*command, "--version")) else "gcc"


def _first_output_line(command: tuple[str, ...]) -> str:
    import subprocess

    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise missing_compiler(f"{command[0]} cannot be started") from error
    return (result.stdout.splitlines() or [""])[0]


def missing_compiler(why: str) -> CompilerMissingError:
    """The error of a compiler that is absent or cannot be started."""
    fix = "pip install 'circlet[compile]', or set CIRCLET_CC, or run an artifact made elsewhere"
    if Config.from_environment().compiler:
        fix = "correct CIRCLET_CC, or unset it and pip install 'circlet[compile]'"
    return CompilerMissingError("no C compiler was found", why=why, fix=fix)
