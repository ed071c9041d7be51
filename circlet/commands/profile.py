"""What `circlet profile` does, as a function: a request in, plain data out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from circlet.commands.inputs import (
    DEFAULT_PIXELS,
    InputOptions,
    check_used,
    inputs_of,
    read_inputs,
)
from circlet.errors import InputError
from circlet.formats.outputs import Output, check_output_suffix, output_bytes
from circlet.formats.paths import check_apart
from circlet.formats.sound import DEFAULT_SOUND
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.profiling import Profile, profile
from circlet.profiling.export import FORMATS, chrome_trace
from circlet.profiling.profiler import random_inputs
from circlet.profiling.tensors import Intermediate, intermediates
from circlet.regular_files import check_replaceable, write_file
from circlet.runtime.session import Session


@dataclass(frozen=True)
class ProfileRequest:
    """What `circlet profile` is asked for.

    Attributes:
        inputs: Files of the inputs, in order; random data where there are none.
        runs: How many runs are timed; as many as take about a second where it is None.
        roofline: Whether to measure what the machine could do.
        form: One of `FORMATS`, or "table" for none of them.
        output: The file for that form; standard output where it is None.
        trace: The file for a Chrome trace.
        tensors: Names of intermediate tensors to show.
        save_tensors: The .npz file, or another form of outputs, for their values.
    """

    model: Path
    inputs: tuple[Path, ...] = ()
    threads: int | None = None
    runs: int | None = None
    options: Options = DEFAULT_OPTIONS
    roofline: bool = True
    form: str = "table"
    output: Path | None = None
    trace: Path | None = None
    tensors: tuple[str, ...] = ()
    save_tensors: Path | None = None


@dataclass(frozen=True)
class TensorRow:
    """An intermediate tensor in a line; `level` is the level whose kernels made it.

    `least`, `most` and `mean` are those of its numbers, None where it holds none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    level: str
    least: float | None
    most: float | None
    mean: float | None


@dataclass(frozen=True)
class ProfileReport:
    """What was found, and the same in the form that was asked for; "" for a table."""

    profile: Profile
    tensors: tuple[TensorRow, ...]
    text: str
    output: str
    trace: str
    saved: str


def profile_network(request: ProfileRequest) -> ProfileReport:
    """Profile a network, and write the files that are asked for.

    Raises:
        CircletError: As `circlet.profile`; or a file cannot be written.
    """
    _check(request)
    written = (request.output, request.trace, request.save_tensors)
    others: list[Path | None] = [*request.inputs, request.model]
    for path in filter(None, written):
        check_replaceable(path, "the result")
        check_apart(path, others)
        others.append(path)
    if request.save_tensors:
        check_output_suffix(request.save_tensors)
    session = Session.of(request.model, request.options, threads=request.threads)
    arrays = _inputs(request, session)
    found = profile(session, arrays, runs=request.runs, roofline=request.roofline)
    tensors = list(intermediates(session, arrays, request.tensors).values())
    text = FORMATS[request.form](found) if request.form in FORMATS else ""
    if request.output:
        write_file(request.output, text.encode(), 0o644)
    if request.trace:
        write_file(request.trace, chrome_trace(found).encode(), 0o644)
    if request.save_tensors:
        write_file(request.save_tensors, _saved(request.save_tensors, tensors), 0o644)
    files = (str(path or "") for path in written)
    return ProfileReport(found, tuple(map(_row, tensors)), text, *files)


def _check(request: ProfileRequest) -> None:
    """InputError where an option would do nothing."""
    if request.output and request.form not in FORMATS:
        raise InputError(
            "a table for people is printed, not written",
            where=str(request.output),
            fix=f"choose a --format among {', '.join(FORMATS)}",
        )
    if request.save_tensors and not request.tensors:
        raise InputError(
            "no tensors are named", where=str(request.save_tensors), fix="name them with --tensors"
        )


def _inputs(request: ProfileRequest, session: Session) -> Sequence[np.ndarray]:
    options = InputOptions(DEFAULT_PIXELS, DEFAULT_SOUND, request.options.limits.memory_bytes)
    check_used(request.inputs, options)
    if not request.inputs:
        return random_inputs(session)
    about = session.opened.metadata.get("about")
    facts = about if isinstance(about, dict) else {}
    classes = max((value.shape[-1] for value in session.outputs if value.shape), default=0)
    return read_inputs(request.inputs, inputs_of(session), options, facts, classes).arrays


def _saved(path: Path, tensors: Sequence[Intermediate]) -> bytes:
    rows = [Output(t.name, t.array, t.scale, t.zero_point) for t in tensors]
    return output_bytes(path, rows)


def _row(tensor: Intermediate) -> TensorRow:
    array = tensor.array
    dtype = np.asarray(array).dtype
    is_real = array.size > 0 and dtype.kind in "biuf"
    numbers = array.astype(np.float64) if is_real else None
    figures: tuple[float | None, ...] = (None, None, None)
    if numbers is not None:
        figures = (float(numbers.min()), float(numbers.max()), float(numbers.mean()))
    least, most, mean = figures
    return TensorRow(tensor.name, str(dtype), array.shape, tensor.level, least, most, mean)
