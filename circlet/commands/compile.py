"""What `circlet compile` does, as a function."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from circlet.artifact.file import open_artifact
from circlet.backends.registry import find_backend, native_operators
from circlet.compiler.compile import compile_template
from circlet.compiler.template import Template
from circlet.errors import CompilerMissingError
from circlet.formats.paths import check_apart
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.regular_files import check_replaceable, write_file
from circlet.sample import Sample


@dataclass(frozen=True)
class CompileRequest:
    """What `circlet compile` is asked for.

    Attributes:
        model: None is the embedded sample.
        without_compiler: Whether an artifact is made even where what compiles for a backend is
            missing: others, numpy in the end, run its operators.
    """

    output: Path
    model: Path | None = None
    options: Options = DEFAULT_OPTIONS
    without_compiler: bool = False


@dataclass(frozen=True)
class CompileReport:
    """What was made.

    Attributes:
        artifact: The file.
        size_bytes: Its size.
        seconds: Wall time of the whole.
        targets: What it holds code for.
        native_ops, ops: Operators of the file in native code, and in all.
        arena_bytes, lower_bound_bytes: Working memory of the first target, and what no plan can
            go below.
        tuning: What was tried and won, for each target that was tuned.
    """

    artifact: str
    size_bytes: int
    seconds: float
    targets: tuple[str, ...]
    native_ops: int
    ops: int
    arena_bytes: int
    lower_bound_bytes: int
    tuning: tuple[Mapping[str, Any], ...] = ()


def compile_to_file(request: CompileRequest) -> CompileReport:
    """Compile a model and write the artifact, or nothing.

    Raises:
        CircletError: As `circlet.compiler.compile.compile_model`; FileError if it cannot be
            written.
        CompilerMissingError: There is none for a backend that was asked for.
    """
    start = time.perf_counter()
    if not request.without_compiler:
        _check_compilers(request.options)
    check_replaceable(request.output, "the artifact")
    check_apart(request.output, [request.model])
    template = Template.read(request.model or Sample().model_path, request.options)
    compiled = compile_template(template, request.options)
    write_file(request.output, compiled.artifact, 0o644)
    artifact = open_artifact(compiled.artifact)
    facts = artifact.metadata
    native, operators = native_operators(facts)
    parts, reports = facts["partitions"], compiled.report.values()
    return CompileReport(
        artifact=str(request.output),
        size_bytes=len(compiled.artifact),
        seconds=time.perf_counter() - start,
        targets=tuple(map(str, artifact.targets)),
        native_ops=native,
        ops=operators,
        arena_bytes=max((part.get("arena_bytes", 0) for part in parts), default=0),
        lower_bound_bytes=max((part.get("lower_bound_bytes", 0) for part in parts), default=0),
        tuning=tuple(record for own in reports for record in own.get("tuning", ())),
    )


def _check_compilers(options: Options) -> None:
    """See that every backend that was asked for can compile: an artifact is made to be native."""
    for name in dict.fromkeys(options.backends):
        try:
            find_backend(name).toolchain()
        except CompilerMissingError as error:
            otherwise = "or --without-compiler for an artifact whose operators run in numpy"
            raise CompilerMissingError(
                error.what,
                where=f"backend {name}",
                why=error.reasons,
                fix=f"{error.fix}, {otherwise}",
            ) from error
