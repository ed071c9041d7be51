"""What `circlet optimize` does, as functions: a request in, plain data out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from circlet.artifact.values import Value, unique_names
from circlet.commands.inputs import InputOptions, read_inputs, wanted_of
from circlet.compiler.optimize import Optimized, Optimizer
from circlet.errors import InputError
from circlet.formats import load
from circlet.formats.about import about
from circlet.formats.arrays import random_array
from circlet.formats.paths import check_apart
from circlet.formats.registry import written_format
from circlet.ir import Model, Tensor
from circlet.ir.text import to_text
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.passes import Pass, PassReport, file_pipeline
from circlet.passes.bisect import Culprit, Step
from circlet.passes.selection import ROUNDS, described, read_list, read_pass
from circlet.passes.totals import Totals, file_totals
from circlet.regular_files import check_replaceable, open_regular

ALL = "all"
_LIST_BYTES = 1 << 20


@dataclass(frozen=True)
class PassChoice:
    """Which passes run: those named, else those of a file, else those of a level."""

    level: str = "O2"
    named: tuple[str, ...] = ()
    file: Path | None = None

    def passes(self, format: str) -> tuple[Pass, ...]:
        """The passes, made for a network that will be a file of this format.

        Raises:
            InputError: There is no such level, pass or option.
            FileError: The list cannot be read.
        """
        if self.named:
            return tuple(map(read_pass, self.named))
        if self.file is not None:
            return read_list(*_text_of(self.file))
        return file_pipeline(self.level, format).passes


@dataclass(frozen=True)
class OptimizeRequest:
    """What `circlet optimize` is asked for.

    Attributes:
        model: The file that is read.
        output: The file that is written; its name says the format.
        choice: Which passes run.
        rounds: How often, at most.
        check: Whether every pass is held to the rules of networks and to its promises.
        print_after: A pass after which the network is kept as text, "all" for every one.
        limits: Bounds of what may be made of the file.
    """

    model: Path
    output: Path
    choice: PassChoice = PassChoice()
    rounds: int = ROUNDS
    check: bool = False
    print_after: str = ""
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class PassRow:
    """What one pass did in all its runs; the operators as "KIND source-names"."""

    name: str
    runs: int
    seconds: float
    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Printed:
    """The network as text after a run of a pass that rewrote something."""

    name: str
    round: int
    text: str


@dataclass(frozen=True)
class OptimizeReport:
    """What was read, done and written.

    Attributes:
        model, output, format: The files, and the format of the second.
        source_bytes, size_bytes: Their sizes.
        before, after: Operators, multiply-accumulates, bytes moved and bytes of constants, of both
            files as a reader of them finds them.
        passes: What each pass did, in the order of the list.
        rounds: How often the list was run.
        settled: Whether the last of these changed nothing.
        printed: What was asked for by `print_after`.
        dropped: Names of metadata that no longer fit.
        seconds: Wall time of all passes.
    """

    model: str
    output: str
    format: str
    source_bytes: int
    size_bytes: int
    before: Totals
    after: Totals
    passes: tuple[PassRow, ...]
    rounds: int
    settled: bool
    printed: tuple[Printed, ...] = ()
    dropped: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class BisectRequest:
    """What `circlet optimize --bisect` is asked for.

    Attributes:
        inputs: A file for each input, or one .npz for all; none for random data.
        seed: Of random data.
        format: What the network would be written as.
        tolerance: How far results may be from those of the network as it was given; None where
            each pass is held to what it declares.
    """

    model: Path
    choice: PassChoice = PassChoice()
    inputs: tuple[Path, ...] = ()
    seed: int = 0
    format: str = "circle"
    tolerance: float | None = None
    rounds: int = ROUNDS
    check: bool = False
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class BisectReport:
    """What was found; `inputs` says where each came from."""

    model: str
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    culprit: Culprit | None


def optimize_file(request: OptimizeRequest) -> OptimizeReport:
    """Read, rewrite and write a model file, or write nothing.

    Raises:
        InputError: The output's name says no format, or is that of the model; a pass is unknown.
        PassError: A pass failed.
        CircletError: As `circlet.optimize`, and `Optimized.save`.
    """
    chosen = written_format(request.output)
    check_apart(request.output, [request.model, request.choice.file])
    check_replaceable(request.output, "the model file")
    passes = request.choice.passes(chosen.name)
    _check_printed(request.print_after, passes)
    optimizer = Optimizer(
        request.model, passes, check=request.check, rounds=request.rounds, limits=request.limits
    )
    printed = [
        Printed(report.name, report.round, to_text(optimizer.model, data=False))
        for report in optimizer.steps()
        if report.rewrote and request.print_after in (report.name, ALL)
    ]
    done = optimizer.result()
    done.save(request.output, chosen.name)
    return _report(request, chosen.name, done, printed)


def bisect_file(request: BisectRequest) -> BisectReport:
    """Find the first run of a pass after which a network computes something else.

    Raises:
        InputError: An input does not fit; a pass is unknown.
        PassError: A pass failed.
        CircletError: As `circlet.optimize`, and of the run.
    """
    optimizer = Optimizer(
        request.model,
        request.choice.passes(request.format),
        check=request.check,
        rounds=request.rounds,
        limits=request.limits,
    )
    arrays, sources = _inputs(optimizer.model, request)
    found = optimizer.bisect(arrays, request.tolerance)
    return BisectReport(str(request.model), sources, found.steps, found.culprit)


def list_passes() -> list[dict[str, object]]:
    """Every pass as plain data."""
    return [vars(row) for row in described()]


def _report(
    request: OptimizeRequest, format: str, done: Optimized, printed: Sequence[Printed]
) -> OptimizeReport:
    reports = done.log.reports
    return OptimizeReport(
        model=str(request.model),
        output=str(request.output),
        format=format,
        source_bytes=done.model.source_bytes,
        size_bytes=request.output.stat().st_size,
        before=done.before,
        after=file_totals(load(request.output, request.limits)),
        passes=tuple(_rows(reports)),
        rounds=max((report.round for report in reports), default=0),
        settled=done.log.settled,
        printed=tuple(printed),
        dropped=done.dropped,
        seconds=sum(report.seconds for report in reports),
    )


def _rows(reports: Sequence[PassReport]) -> Iterator[PassRow]:
    """One row per pass, in the order of the list."""

    def all_of(part: Callable[[PassReport], tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(op for report in own for op in part(report))

    for name in dict.fromkeys(report.name for report in reports):
        own = [report for report in reports if report.name == name]
        yield PassRow(
            name,
            len(own),
            sum(report.seconds for report in own),
            all_of(lambda report: report.removed),
            all_of(lambda report: report.added),
            all_of(lambda report: report.changed),
        )


def _check_printed(name: str, passes: Sequence[Pass]) -> None:
    known = [item.name for item in passes]
    if name in ("", ALL, *known):
        return
    near = get_close_matches(name, known, 1)
    fix = f"did you mean '{near[0]}'?" if near else f"those that run: {', '.join(known) or 'none'}"
    raise InputError("the pass to print after does not run", where=name, fix=fix)


def _text_of(path: Path) -> tuple[str, str]:
    """What a list of passes says, and its name."""
    with open_regular(path, "a list of passes") as file:
        data = file.read(_LIST_BYTES + 1)
    if len(data) > _LIST_BYTES:
        raise InputError("a list of passes is too long", where=str(path), why="more than 1 MiB")
    return data.decode("utf-8", "replace"), str(path)


def _inputs(model: Model, request: BisectRequest) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """The arrays of the main graph's inputs, and where each is from."""
    tensors = [tensor for tensor in model.main.inputs if tensor.data is None]
    names = unique_names(tensors)
    values = [_value(name, tensor) for name, tensor in zip(names, tensors, strict=True)]
    if not request.inputs:
        arrays = [random_array(wanted_of(value), request.seed) for value in values]
        return arrays, (f"random data (seed {request.seed})",) * len(values)
    options = InputOptions(memory_bytes=request.limits.memory_bytes)
    given = read_inputs(request.inputs, values, options, about(model))
    return given.arrays, given.origins


def _value(name: str, tensor: Tensor) -> Value:
    """An input as files are read for it; sizes that the file leaves open are its defaults."""
    dtype, quant = tensor.dtype.in_arrays, tensor.quant
    if dtype is None:
        raise InputError("an input has no numpy type", where=name, why=tensor.dtype.name)
    return Value(
        name,
        dtype.name,
        tensor.static_shape,
        tuple(map(float, quant.scale)) if quant else (),
        tuple(map(int, quant.zero_point)) if quant else (),
    )
