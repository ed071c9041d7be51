"""Builds freestanding shared objects with the C compiler."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from circlet.artifact.cache import Cache, usable_folder
from circlet.backends.cpu.c_compiler import Compiler, compiler_identity, find_compiler
from circlet.backends.cpu.emit import KERNEL_START
from circlet.backends.cpu.flags import unit_flags
from circlet.backends.cpu.processes import Compilers, Done
from circlet.config import Config, compiler_environment, temporary_folder
from circlet.errors import CacheError, CompileError, TargetError
from circlet.progress import Stage
from circlet.scratch import scratch_folder
from circlet.target.host import host_architecture
from circlet.target.targets import Target
from circlet.target.threads import usable_cores

__all__ = [
    "KERNELS_DIR",
    "RUNTIME_DIR",
    "UnitSource",
    "check_targets",
    "compile_unit",
    "compile_units",
    "compiler_cache",
    "compiler_identity",
    "find_compiler",
]

RUNTIME_DIR = Path(__file__).parent / "runtime"
KERNELS_DIR = Path(__file__).parent / "kernels"
_SHOWN_LINES = 12
_HEARS_SIGNALS_S = 0.2
_NOTHING = "typedef int nothing;\n"
_OF_USERS = "user_op_params"  # in units with C of operators that users registered
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class UnitSource:
    """C text to build for a target, with flags beyond those of the target."""

    text: str
    target: Target
    flags: tuple[str, ...] = ()

    @property
    def kernels(self) -> int:
        """How many kernels it has, as progress counts them."""
        return max(1, self.text.count(KERNEL_START))


def compile_unit(
    source: str,
    target: Target,
    *,
    flags: Sequence[str] = (),
    config: Config | None = None,
    compilers: Compilers | None = None,
) -> bytes:
    """The bytes of the shared object built from one C text."""
    unit = UnitSource(source, target, tuple(flags))
    return compile_units([unit], config=config, compilers=compilers)[0]


def compile_units(
    units: Sequence[UnitSource],
    *,
    config: Config | None = None,
    compilers: Compilers | None = None,
    stage: Stage | None = None,
) -> list[bytes]:
    """The shared objects of several C texts, built side by side.

    Args:
        compilers: Those of a larger request, which ends them if it is interrupted.
        stage: What the kernels that are compiled advance.

    Raises:
        CompilerMissingError: There is no compiler, or it cannot be started.
        CompileError: The compiler refused a text; the message holds its first lines.
        CacheError: There is no room or no permission for the files of the compiler.
    """
    config = config or Config.from_environment()
    compiler = find_compiler(config)
    try:
        with scratch_folder() as folder:
            return _compile_in(Path(folder), units, compiler, config, compilers, stage)
    except OSError as error:
        raise _no_room(error) from error


def check_targets(targets: Iterable[Target], config: Config) -> None:
    """See that the compiler makes code for other machines, before much work is done for them.

    Raises:
        TargetError: It makes none for one of the targets.
        CircletError: As `compile_units`.
    """
    for target in targets:
        if target.arch != host_architecture():
            try:
                compile_unit(_NOTHING, target, config=config)
            except CompileError as error:
                raise TargetError(
                    f"the C compiler makes no code for {target}",
                    where=error.where,
                    why=error.reasons,
                    fix=f"set CIRCLET_CC to a compiler for {target.arch}, or unset it: "
                    "the package ziglang compiles for every target",
                ) from error


def _compile_in(
    folder: Path,
    units: Sequence[UnitSource],
    compiler: Compiler,
    config: Config,
    compilers: Compilers | None,
    stage: Stage | None,
) -> list[bytes]:
    environment = compiler_environment(
        ZIG_GLOBAL_CACHE_DIR=str(_folder_of_compiler(config, folder)),
        ZIG_LOCAL_CACHE_DIR=str(folder / "local"),
        TMPDIR=str(folder),
    )

    def build(unit: UnitSource) -> bytes:
        own = Path(tempfile.mkdtemp(dir=folder))
        image = _compile_one(own, unit, compiler, processes, environment)
        if stage is not None:
            stage.advance(unit.kernels)
        return image

    workers = min(len(units), usable_cores()) or 1
    with ThreadPoolExecutor(workers) as pool, compilers or Compilers() as processes:
        return list(map(build, units) if workers == 1 else started(pool, build, units))


def started(
    pool: ThreadPoolExecutor, function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """The results for all items, computed by a pool; where it gets no thread, by this one."""
    try:
        futures = [pool.submit(function, item) for item in items]
    except RuntimeError:
        return map(function, items)
    return _results(futures)


def _results(futures: Sequence[Future[Result]]) -> Iterator[Result]:
    """Results in order; an endless wait would miss a signal that comes as it begins."""
    try:
        for future in futures:
            while not future.done():
                wait([future], timeout=_HEARS_SIGNALS_S)
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def _compile_one(
    folder: Path,
    unit: UnitSource,
    compiler: Compiler,
    compilers: Compilers,
    environment: dict[str, str],
) -> bytes:
    (folder / "unit.c").write_text(unit.text, encoding="utf-8")
    includes = [f"-I{KERNELS_DIR}", f"-I{RUNTIME_DIR}"]
    flags = [*unit_flags(unit.target, compiler.family, unit.flags), *includes]
    command = [*compiler.command, *flags, "unit.c", "-o", "unit.so"]
    result = compilers.run(command, str(folder), environment)
    unit_path = folder / "unit.so"
    if result.returncode != 0 or not unit_path.exists():
        raise _refusal(result, unit, compiler)
    return unit_path.read_bytes()


def _refusal(result: Done, unit: UnitSource, compiler: Compiler) -> CompileError | CacheError:
    text = result.stderr
    if "No space left" in text or "NoSpaceLeft" in text or "Disk quota" in text:
        return _no_room(OSError(errno.ENOSPC, "no space left on the device"))
    lines = [line for line in text.splitlines() if line.strip()][:_SHOWN_LINES]
    ended = f"it wrote no file and ended with status {result.returncode}"
    fixes = (
        (bool(Config.from_environment().compiler), "correct or unset CIRCLET_CC"),
        (_OF_USERS in unit.text, "correct the C that register_op was given"),
        (True, "report this with the model"),
    )
    return CompileError(
        "the C compiler refused generated code",
        where=f"{' '.join(compiler.command)}, target {unit.target}",
        why=lines or ended,
        fix=", or ".join(fix for applies, fix in fixes if applies),
    )


def compiler_cache(config: Config) -> Cache:
    """Where what compilers need is kept, a cache in the cache.

    It holds code: where others could write to it, nothing is kept.
    """
    with suppress(CacheError):
        folder = usable_folder(config) if config.cache_bytes else None
        if folder is not None:
            return Cache(config._replace(cache_dir=Path(folder.path) / "compiler"))
    return Cache(config._replace(cache_bytes=0))


def _folder_of_compiler(config: Config, scratch: Path) -> Path:
    """The compiler's own cache: in ours where that is used and can be written, or thrown away."""
    kept = compiler_cache(config).folder
    if kept is None or not kept.is_writable:
        return scratch / "unkept"
    wanted = Path(kept.path) / "zig"
    try:
        wanted.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return scratch / "unkept"
    return wanted


def _no_room(error: OSError) -> CacheError:
    return CacheError(
        "the files of the compiler cannot be written",
        where=str(error.filename or temporary_folder()),
        why=error.strerror or str(error),
        fix="free some space, or set TMPDIR and CIRCLET_CACHE_DIR to folders that can be written",
    )
