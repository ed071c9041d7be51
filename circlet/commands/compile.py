"""What `circlet compile` does, as a function."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from circlet.artifact.file import open_artifact
from circlet.artifact.writer import write_file
from circlet.compiler.compile import compile_template
from circlet.compiler.template import Template
from circlet.formats.paths import check_apart
from circlet.options import OpenOptions
from circlet.sample import Sample

if TYPE_CHECKING:
    from circlet.backends.cpu.tuning.search import Tuning


@dataclass(frozen=True)
class CompileRequest:
    """The options of `circlet compile`; `model` None is the embedded sample."""

    output: Path
    model: Path | None = None
    target: str = "native"
    backends: tuple[str, ...] = ("cpu", "reference")
    strict: bool = False
    level: str = "O2"
    signature: str = ""
    precision: str = "f32"
    tune_seconds: float = 0.0


@dataclass(frozen=True)
class CompileReport:
    """What was made.

    Attributes:
        artifact: The file.
        size_bytes: Its size.
        seconds: Wall time of the whole.
        targets: What it holds code for.
        native_ops, ops: Operators in generated code, and in all.
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
    tuning: tuple[Tuning, ...] = ()


def compile_to_file(request: CompileRequest) -> CompileReport:
    """Compile a model and write the artifact, or nothing.

    Raises:
        CircletError: As `circlet.compiler.build.compile_model`; FileError if it cannot be written.
    """
    start = time.perf_counter()
    options = OpenOptions(
        request.backends,
        request.strict,
        request.target,
        request.level,
        signature=request.signature,
        precision=request.precision,
        tune_seconds=request.tune_seconds,
    )
    check_apart(request.output, [request.model])
    template = Template.read(request.model or Sample().model_path, options)
    data, tuning = compile_template(template, options)
    write_file(request.output, data, 0o644)
    artifact = open_artifact(data)
    facts = artifact.metadata
    backends = [row[2] for row in facts["placement"]]
    parts = facts["partitions"]
    return CompileReport(
        artifact=str(request.output),
        size_bytes=len(data),
        seconds=time.perf_counter() - start,
        targets=tuple(map(str, artifact.targets)),
        native_ops=backends.count("cpu"),
        ops=len(backends),
        arena_bytes=max((part.get("arena_bytes", 0) for part in parts), default=0),
        lower_bound_bytes=max((part.get("lower_bound_bytes", 0) for part in parts), default=0),
        tuning=tuple(tuning),
    )
