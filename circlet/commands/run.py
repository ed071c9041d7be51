"""What `circlet run` does, as a function: a request in, a report of plain data out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from circlet.artifact.file import SUFFIX as ARTIFACT_SUFFIX
from circlet.artifact.values import Value, unique_names
from circlet.backends.registry import native_operators
from circlet.commands.answers import Answer, dequantised
from circlet.commands.inputs import (
    DEFAULT_PIXELS,
    Given,
    InputOptions,
    PixelOptions,
    check_used,
    inputs_of,
    read_inputs,
    wanted_of,
)
from circlet.commands.labels import NO_LABELS, Labels, read_labels
from circlet.commands.objects import Detection
from circlet.commands.poses import Pose
from circlet.commands.reading import Reading, ReadingOptions, draw, read_outputs
from circlet.commands.timing import RunTimes, time_runs
from circlet.errors import InputError
from circlet.formats.arrays import random_array
from circlet.formats.outputs import (
    Output,
    check_output_count,
    check_output_suffix,
    output_bytes,
)
from circlet.formats.paths import check_apart
from circlet.formats.pixels import GUESSED, PixelMapping
from circlet.formats.sound import DEFAULT_SOUND, SoundOptions
from circlet.options import DEFAULT_EXECUTOR, DEFAULT_OPTIONS, Options, shape_words
from circlet.placement.file import with_placement
from circlet.regular_files import check_replaceable, write_file
from circlet.runtime.artifacts import ArtifactSource, artifact_source
from circlet.runtime.session import Session
from circlet.sample import Sample

_NOTHING = "the outputs hold no classes, boxes, poses, map or picture that are known"


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
    pixels: PixelOptions = DEFAULT_PIXELS
    sound: SoundOptions = DEFAULT_SOUND
    seed: int = 0
    repeat: int = 0
    warmup: int = 0
    delay: float = 0.0
    trust: Trust = NO_TRUST
    least_score: float | None = None
    draw: Path | None = None
    placement_file: Path | None = None


@dataclass(frozen=True)
class RunReport:
    """What happened.

    Attributes:
        model: What ran.
        inputs: Where each input came from.
        pixels: How each picture among them was mapped; None for other inputs.
        answers: The outputs, made readable.
        detections: What a detector found, if the network is one.
        poses: People that a pose network found.
        kind: What sort of network it is where it is a detector or a pose network.
        least_score: The score that objects and poses have at least.
        best_left_out: The best score below it.
        labels: Where the labels of objects are from.
        signature: The entry point that ran, of all `signatures`; "" where the file names none.
        drawing: Where the answer was drawn, "" where it was not.
        alternative: The command to try where the mapping of a picture was guessed.
        seconds: Wall time by part: "load", and "compile", "cache" or "resize".
        times: Wall time of the runs.
        threads: Threads of each run.
        native_ops, ops: Operators of the file in native code, and in all.
        placement: The placement table.
        expected: For the embedded sample, the label of the picture.
        precision: What operands of float products are rounded to.
        executor: What ran the partitions, of which there are so many.
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
    pixels: tuple[PixelMapping | None, ...] = ()
    poses: tuple[Pose, ...] = ()
    kind: str = ""
    least_score: float = 0.0
    best_left_out: float | None = None
    labels: str = ""
    signature: str = ""
    signatures: tuple[str, ...] = ()
    drawing: str = ""
    alternative: str = ""
    executor: str = DEFAULT_EXECUTOR
    partitions: int = 1


def run_network(request: RunRequest) -> RunReport:
    """Open, feed, run, time and describe a network."""
    sample = Sample() if request.model is None else None
    labels = _labels(request, sample)
    source = request.trust.source(sample.model_path if sample else request.model or Path())
    _check_written(request)
    options = with_placement(request.options, request.placement_file)
    session = Session.of(source, options, threads=request.threads)
    if request.output:
        check_output_count(request.output, unique_names(session.outputs))
    given = _given(request, session, sample)
    session, arrays = session.fitting(given.arrays)
    call, results = _ready(session, arrays)
    times = time_runs(call, request.repeat, request.warmup, request.delay)
    if request.output:
        write_outputs(request.output, session.outputs, results)
    wanted = ReadingOptions(labels, request.top, request.least_score)
    shape = _picture_shape(session, given)
    reading = read_outputs(session.outputs, results, wanted, _about(session), shape)
    drawing = _drawn(request.draw, given, session, results, reading) if request.draw else ""
    return _report(request, session, sample, given, reading, drawing, times)


def _labels(request: RunRequest, sample: Sample | None) -> Labels:
    """What classes are called: as a file says, or the sample."""
    if request.labels:
        return read_labels(request.labels)
    return Labels(tuple(sample.labels), "the sample's") if sample else NO_LABELS


def _check_written(request: RunRequest) -> None:
    """See that what is to be written can be, and is not read besides."""
    read = [*request.inputs, request.model, request.labels]
    if request.output:
        check_replaceable(request.output, "the outputs")
        check_output_suffix(request.output)
        check_apart(request.output, read)
    if request.draw:
        check_replaceable(request.draw, "the drawing")
        check_apart(request.draw, [*read, request.output])


def _report(
    request: RunRequest,
    session: Session,
    sample: Sample | None,
    given: Given,
    reading: Reading,
    drawing: str,
    times: RunTimes,
) -> RunReport:
    about = _about(session)
    undrawn = f"{request.draw} is not written: {_NOTHING}" if request.draw and not drawing else ""
    native, operators = native_operators(session.opened.metadata)
    return RunReport(
        model=sample.title if sample else str(request.model),
        signature=str(about.get("signature", "")),
        signatures=tuple(map(str, about.get("signatures", ()))),
        inputs=given.origins,
        pixels=given.pixels,
        alternative=_alternative(request, given.pixels),
        answers=reading.answers,
        kind=reading.kind,
        detections=reading.detections,
        poses=reading.poses,
        least_score=reading.least_score,
        best_left_out=reading.best_left_out,
        labels=reading.labels,
        drawing=drawing,
        seconds=session.opened.seconds,
        times=times,
        threads=session.threads,
        native_ops=native,
        ops=operators,
        placement=session.placement,
        expected=sample.expected if sample and not request.inputs else "",
        warnings=(
            *given.warnings,
            *map(str, about.get("warnings", ())),
            *reading.warnings,
            *filter(None, [undrawn]),
        ),
        precision=session.opened.metadata.get("precision", "f32"),
        executor=str(session.options.executor),
        partitions=len(session.opened.partitions),
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


def _given(request: RunRequest, session: Session, sample: Sample | None) -> Given:
    """What the network is given: files, the sample's picture, or random data."""
    options = InputOptions(request.pixels, request.sound, request.options.limits.memory_bytes)
    check_used(request.inputs, options)
    if sample and not request.inputs:
        return Given([sample.image()], (sample.image_title,))
    values = inputs_of(session)
    if not request.inputs:
        wanted = [wanted_of(value) for value in values]
        arrays = [random_array(spec, request.seed) for spec in wanted]
        warning = f"no --input: the network ran on random data (seed {request.seed})"
        return Given(arrays, ("random data",) * len(wanted), (warning,))
    classes = max((value.shape[-1] for value in session.outputs if value.shape), default=0)
    return read_inputs(request.inputs, values, options, _about(session), classes)


def _about(session: Session) -> Mapping[str, Any]:
    """What the model's file said of the network; nothing where an artifact has no such facts."""
    found = session.opened.metadata.get("about")
    return found if isinstance(found, dict) else {}


def _alternative(request: RunRequest, pixels: Sequence[PixelMapping | None]) -> str:
    """The command that maps pictures the other way, where the way taken was guessed."""
    guessed = next((m for m in pixels if m and m.certainty == GUESSED), None)
    if guessed is None:
        return ""
    words = ["circlet", "run", *([str(request.model)] if request.model else [])]
    for path in request.inputs:
        words += ["--input", str(path)]
    if request.labels:
        words += ["--labels", str(request.labels)]
    words += shape_words(request.options.shapes)
    if guessed.alternative:
        words.append(f"--pixels={guessed.alternative}")
    elif guessed.is_signed:
        words.append("--no-signed-bytes")
    else:
        words.append("--no-invert")
    return shlex.join(words)


def _picture_shape(session: Session, given: Given) -> tuple[int, ...]:
    """Sizes of the input that a picture was given for, else of the first."""
    pairs = zip(session.inputs, given.pixels, strict=False)
    named = (value.shape for value, mapping in pairs if mapping is not None)
    return next(named, session.inputs[0].shape if session.inputs else ())


def _drawn(
    path: Path,
    given: Given,
    session: Session,
    results: Sequence[np.ndarray],
    reading: Reading,
) -> str:
    """Where the answer was drawn, "" where there is nothing to draw."""
    pairs = zip(session.outputs, results, strict=True)
    real = [dequantised(value, array) for value, array in pairs if not value.is_text]
    return str(path) if draw(path, given.picture, reading, real) else ""


def write_outputs(path: Path, values: Sequence[Value], arrays: Sequence[np.ndarray]) -> None:
    """Write outputs to a file in the form that its name says, whole or not at all."""
    rows = zip(unique_names(values), values, arrays, strict=True)
    outputs = [Output(name, array, value.scale, value.zero_point) for name, value, array in rows]
    write_file(path, output_bytes(path, outputs), 0o644)
