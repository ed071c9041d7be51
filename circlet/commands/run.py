"""What `circlet run` does, as a function: a request in, a report of plain data out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from circlet.artifact.file import SUFFIX as ARTIFACT_SUFFIX
from circlet.artifact.values import Value, unique_names
from circlet.backends.registry import native_count
from circlet.commands.answers import Answer, Detection, answer, detections
from circlet.commands.timing import RunTimes, time_runs
from circlet.errors import FileError, InputError
from circlet.formats.arrays import (
    DEFAULT_PIXELS,
    NO_PICTURES,
    SOUNDS,
    Normalisation,
    Wanted,
    random_array,
    read_array,
)
from circlet.formats.outputs import (
    Output,
    check_output_count,
    check_output_suffix,
    output_bytes,
)
from circlet.formats.paths import check_apart
from circlet.formats.sound import DEFAULT_SOUND, SoundOptions, read_sound_input
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.regular_files import check_replaceable, open_regular, write_file
from circlet.runtime.artifacts import ArtifactSource, artifact_source
from circlet.runtime.session import Session
from circlet.sample import Sample


@dataclass(frozen=True)
class Trust:
    """When a file is an artifact whose code is executed, and which artifacts are accepted.

    Attributes:
        is_artifact: Whether the caller says so; else the end of the file's name does.
        digest, public_keys: As `circlet.load_artifact` takes them.
    """

    is_artifact: bool = False
    digest: str = ""
    public_keys: tuple[Path, ...] = ()

    def source(self, model: Path) -> Path | ArtifactSource:
        """What a session opens; InputError where a model is to be signed."""
        if self.is_artifact or model.suffix == ARTIFACT_SUFFIX:
            return artifact_source(model, self.digest, self.public_keys)
        if self.digest or self.public_keys:
            raise InputError(
                "only artifacts have digests and signatures",
                where=str(model),
                why=f"its name does not end in {ARTIFACT_SUFFIX}",
                fix="leave --digest and --public-key out, or say --artifact",
            )
        return model


NO_TRUST = Trust()


@dataclass(frozen=True)
class RunRequest:
    """What `circlet run` is asked for; `model` None is the embedded sample."""

    model: Path | None = None
    inputs: tuple[Path, ...] = ()
    labels: Path | None = None
    top: int = 5
    output: Path | None = None
    threads: int | None = None
    options: Options = DEFAULT_OPTIONS
    pixels: Normalisation = DEFAULT_PIXELS
    sound: SoundOptions = DEFAULT_SOUND
    seed: int = 0
    repeat: int = 0
    warmup: int = 0
    delay: float = 0.0
    trust: Trust = NO_TRUST


@dataclass(frozen=True)
class RunReport:
    """What happened.

    Attributes:
        model: What ran.
        inputs: Where each input came from.
        answers: The outputs, made readable.
        detections: What a detector found, if the network is one.
        seconds: Wall time by part: "load", and "compile" or "cache".
        times: Wall time of the runs.
        threads: Threads of each run.
        native_ops, ops: Operators in generated code, and in all.
        placement: The placement table.
        expected: For the embedded sample, the label of the picture.
        precision: What operands of float products are rounded to.
    """

    model: str
    inputs: tuple[str, ...]
    answers: tuple[Answer, ...]
    detections: tuple[Detection, ...]
    seconds: dict[str, float]
    times: RunTimes
    threads: int
    native_ops: int
    ops: int
    placement: list[dict[str, object]] = field(default_factory=list)
    expected: str = ""
    warnings: tuple[str, ...] = ()
    precision: str = "f32"


def run_network(request: RunRequest) -> RunReport:
    """Open, feed, run, time and describe a network."""
    sample = Sample() if request.model is None else None
    labels = sample.labels if sample and not request.labels else _labels(request.labels)
    source = request.trust.source(sample.model_path if sample else request.model or Path())
    if request.output:
        check_replaceable(request.output, "the outputs")
        check_output_suffix(request.output)
        check_apart(request.output, [*request.inputs, request.model, request.labels])
    session = Session.of(source, request.options, threads=request.threads)
    if request.output:
        check_output_count(request.output, unique_names(session.outputs))
    arrays, origins, warnings = _inputs(request, session, sample)
    call, results = _ready(session, arrays)
    times = time_runs(call, request.repeat, request.warmup, request.delay)
    if request.output:
        write_outputs(request.output, session.outputs, results)
    pairs = zip(session.outputs, results, strict=True)
    backends = [str(row["backend"]) for row in session.placement]
    answers = tuple(answer(value, array, labels, request.top) for value, array in pairs)
    found = detections(results, labels, request.top)
    if request.labels and not (found or any(item.top or item.shares for item in answers)):
        warnings += (f"--labels: {len(labels)} labels fit the classes of no output",)
    return RunReport(
        model=sample.title if sample else str(request.model),
        inputs=origins,
        answers=answers,
        detections=found,
        seconds=session.opened.seconds,
        times=times,
        threads=session.threads,
        native_ops=native_count(backends),
        ops=len(backends),
        placement=session.placement,
        expected=sample.expected if sample and not request.inputs else "",
        warnings=warnings,
        precision=session.opened.metadata.get("precision", "f32"),
    )


def _ready(
    session: Session, arrays: Sequence[np.ndarray]
) -> tuple[Callable[[], None], list[np.ndarray]]:
    """A call that runs the session on the arrays, and the list that then holds the outputs."""
    results: list[np.ndarray] = []
    if not any(value.is_dynamic for value in session.outputs):
        bound = session.bind(arrays)
        results += bound.outputs
        return bound.run, results

    def run() -> None:
        results[:] = session.run(arrays).values()

    return run, results


def _inputs(
    request: RunRequest, session: Session, sample: Sample | None
) -> tuple[list[np.ndarray], tuple[str, ...], tuple[str, ...]]:
    wanted = [_wanted(value) for value in session.inputs]
    _check_used(request)
    if sample and not request.inputs:
        return [sample.image()], (sample.image_title,), ()
    if not request.inputs:
        arrays = [random_array(spec, request.seed) for spec in wanted]
        warning = f"no --input: the network ran on random data (seed {request.seed})"
        return arrays, ("random data",) * len(wanted), (warning,)
    if len(request.inputs) != len(wanted):
        raise InputError(
            f"{len(request.inputs)} input files given, {len(wanted)} wanted",
            fix=f"one --input for each of {[spec.name for spec in wanted]}, in that order",
        )
    pairs = zip(request.inputs, wanted, strict=True)
    read = [_read_input(path, spec, request) for path, spec in pairs]
    return [array for array, _ in read], tuple(origin for _, origin in read), ()


def _check_used(request: RunRequest) -> None:
    """InputError where options say how to read a kind of input that is not given."""
    suffixes = {path.suffix.lower() for path in request.inputs}
    kinds = (
        ("--rate, --start and --features", "sounds", request.sound != DEFAULT_SOUND, SOUNDS),
        ("--mean and --std", "pictures", request.pixels != DEFAULT_PIXELS, suffixes - NO_PICTURES),
    )
    for options, read, is_asked, matching in kinds:
        if is_asked and not suffixes & matching:
            raise InputError(
                f"{options} are for {read}",
                why=f"the inputs are {' and '.join(sorted(suffixes)) or 'random data'}",
                fix="leave them out, or give such a file with --input",
            )


def _read_input(path: Path, wanted: Wanted, request: RunRequest) -> tuple[np.ndarray, str]:
    """A file as an input array, and where it comes from."""
    most = request.options.limits.memory_bytes
    if path.suffix.lower() in SOUNDS:
        return read_sound_input(path, wanted, request.sound, most)
    return read_array(path, wanted, request.pixels, most), str(path)


def _wanted(value: Value) -> Wanted:
    return Wanted(value.name, value.dtype, value.shape, value.scale, value.zero_point)


def _labels(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        with open_regular(path, "the file of labels") as file:
            return file.read().decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fix = "write one label a line, in UTF-8"
        raise FileError.unreadable("the file of labels", path, error, fix) from error


def write_outputs(path: Path, values: Sequence[Value], arrays: Sequence[np.ndarray]) -> None:
    """Write outputs to a file in the form that its name says, whole or not at all."""
    rows = zip(unique_names(values), values, arrays, strict=True)
    outputs = [Output(name, array, value.scale, value.zero_point) for name, value, array in rows]
    write_file(path, output_bytes(path, outputs), 0o644)
