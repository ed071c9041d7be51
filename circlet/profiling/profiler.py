"""`circlet.profile`: times every kernel call of a network and speaks of the user's operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from circlet.artifact.values import unique_names
from circlet.backends.profiled import KnowsPeaks, Peaks
from circlet.backends.registry import find_backend
from circlet.errors import CompileError, CompilerMissingError, InputError
from circlet.formats.arrays import Wanted, random_array
from circlet.plan.transfers import HOST
from circlet.profiling.calls import TimedCall, planned_again, timed_calls
from circlet.profiling.reasons import Facts, Piece, why
from circlet.profiling.result import CallRow, OperatorRow, Profile, TransferRow
from circlet.profiling.roofline import Least, Machine, least_times, total
from circlet.profiling.sources import SourceOperator, shares, source_operators
from circlet.profiling.timing import RunTimes, time_session
from circlet.runtime.calls import Given
from circlet.runtime.session import Session
from circlet.target.targets import native_target, parse_targets

if TYPE_CHECKING:
    from circlet.runtime.opening import Source

_MOST_RUNS = 1_000_000


def profile(
    model: Source | Session,
    inputs: Given | None = None,
    *,
    runs: int | None = None,
    threads: int | None = None,
    roofline: bool = True,
) -> Profile:
    """Where the time of a network's runs goes, operator by operator of the user's file.

    Args:
        model: A model file, its bytes, a `circlet.ir.Model`, or a session of one of them.
        inputs: What the network runs on, as `Session.run` takes it; seeded random data by default.
        runs: How many runs are timed; as many as take about a second by default.
        threads: Threads of a run where `model` is not a session.
        roofline: Whether to measure what this machine could do, which takes about a second.

    Raises:
        InputError: An argument or an input does not fit, or the session runs an artifact.
        CircletError: As `Session`.
    """
    if runs is not None and not 1 <= runs <= _MOST_RUNS:
        fix = f"give a number from 1 to {_MOST_RUNS}"
        raise InputError("so many runs cannot be timed", where="runs", why=str(runs), fix=fix)
    session = model if isinstance(model, Session) else Session(model, threads=threads)
    given = random_inputs(session) if inputs is None else inputs
    fitting, arrays = session.fitting(given)
    room = fitting.options.loop_room
    if fitting.opened.metadata.get("loop_room"):
        fitting.run(arrays)  # its loops have room for this run from now on
    is_other = fitting is not session or fitting.options.loop_room != room
    if is_other and session.source is not None:
        # Its code was made for other sizes: what is planned for these is what is profiled.
        session = Session.of(session.source, fitting.options, threads=session.threads)
    planned = planned_again(session)
    assert session.source is not None
    named = zip(unique_names(session.inputs), session.inputs, strict=True)
    settled = tuple((name, value.shape) for name, value in named if value.open)
    shapes = (*session.options.shapes, *settled)
    sources = source_operators(session.source, session.options._replace(shapes=shapes))
    times = time_session(session, arrays, runs)
    calls = list(timed_calls(session, planned, times.partitions))
    machine = _machine(session, calls) if roofline else None
    return _Table(session, sources, times, calls, machine).profile()


def random_inputs(session: Session) -> list[np.ndarray]:
    """Seeded random arrays for a session's inputs, in order."""
    values = session.inputs
    return [random_array(Wanted(value.name, value.dtype, value.shape)) for value in values]


def _machine(session: Session, calls: Sequence[TimedCall]) -> Machine | None:
    """The machine's peaks, where a backend that runs some of the network knows them."""
    peaks = _peaks(session, {call.backend for call in calls})
    if peaks is None:
        return None
    return Machine(peaks, session.threads, resident_bytes(session, calls))


def resident_bytes(session: Session, calls: Sequence[TimedCall]) -> int:
    """The bytes that a run goes through: arenas, what is computed once, the calls' constants."""
    parts = session.opened.metadata["partitions"]
    kinds = ("arena_bytes", "once_bytes")
    arenas = sum(int(part.get(kind, 0)) for part in parts for kind in kinds)
    return arenas + sum(call.work.constant_bytes for call in calls)


def _peaks(session: Session, backends: Iterable[str]) -> Peaks | None:
    text = session.opened.target
    target = parse_targets(text)[0] if text else native_target()
    for backend in map(find_backend, sorted(backends)):
        if isinstance(backend, KnowsPeaks):
            try:
                return backend.peaks(target)
            except (CompilerMissingError, CompileError):
                return None
    return None


@dataclass(frozen=True)
class _Table:
    """Makes the rows of a profile of what was measured."""

    session: Session
    sources: Mapping[int, SourceOperator]
    times: RunTimes
    calls: Sequence[TimedCall]
    machine: Machine | None

    def profile(self) -> Profile:
        whole = self.times.whole_ns / 1e3
        copied = sum(step.ns for step in self.times.copies) / 1e3
        between = whole - sum(call.us for call in self.calls) - copied
        facts, machine = self.session.opened.metadata, self.machine
        return Profile(
            model=_title(self.session),
            threads=self.session.threads,
            runs=self.times.runs,
            whole_us=whole,
            plain_us=self.times.plain_ns / 1e3,
            overhead=self.times.overhead,
            between_us=between,
            range_us=(self.times.range_ns[0] / 1e3, self.times.range_ns[1] / 1e3),
            resident_bytes=resident_bytes(self.session, self.calls),
            level=str(facts.get("level", "")),
            target=self.session.opened.target,
            precision=str(facts.get("precision", "f32")),
            peaks=machine.peaks.as_json() if machine else None,
            operators=tuple(self._operators(whole)),
            calls=tuple(self._calls(between)),
            transfers=tuple(self._transfers()),
        )

    def _transfers(self) -> Iterator[TransferRow]:
        opened = self.session.opened
        for step in self.times.copies:
            value, part = opened.values[step.value], opened.partitions[step.partition]
            ends = (HOST, step.memory) if step.is_upload else (step.memory, HOST)
            size = None if value.is_dynamic else value.bytes
            row = (value.name, step.partition, part.backend, *ends, size, step.ns / 1e3)
            yield TransferRow(*row)

    def _calls(self, between: float) -> Iterator[CallRow]:
        """The calls one after the other; what lies between them comes at the start and the end."""
        at = max(0.0, between / 2)
        for call in self.calls:
            work = call.work
            least = self._least(call)
            yield CallRow(
                partition=call.partition,
                step=call.step,
                kernel=work.kernel,
                kind=work.kind,
                backend=call.backend,
                sources=tuple(number for number, _ in work.sources),
                shares=shares(work.sources, self.sources),
                start_us=at,
                us=call.us,
                range_us=call.range_us,
                tasks=work.tasks,
                macs=work.macs,
                data_bytes=work.data_bytes,
                weights_bytes=work.constant_bytes,
                gops=_rate(2 * work.macs, call.us),
                gbs=_rate(work.bytes, call.us),
                roof=least.us / call.us if least and call.us else None,
                bound=least.bound if least else "",
                unit=work.unit,
                busy_us=call.busy_us,
            )
            at += call.us

    def _least(self, call: TimedCall) -> Least | None:
        is_known = self.machine is not None and call.work.bytes
        return least_times(call.work, self.machine) if is_known and self.machine else None

    def _operators(self, whole_us: float) -> Iterator[OperatorRow]:
        pieces, others, places = self._pieces()
        refusals = self._refusals()
        for number, known in self._all_sources().items():
            refusal = refusals.get(known.name, "")
            own, beside = pieces.get(number, ()), others.get(number, ())
            place = places.get(number, "") if own else ""
            within = () if own else beside
            facts = Facts(own, refusal, self.machine, known.subnormals, within)
            yield self._operator(known, facts, beside, place, whole_us)

    def _pieces(
        self,
    ) -> tuple[dict[int, list[Piece]], dict[int, tuple[str, ...]], dict[int, str]]:
        """By source operator: parts of calls, names of those it shares calls with, the backend."""
        pieces: dict[int, list[Piece]] = {}
        others: dict[int, tuple[str, ...]] = {}
        places: dict[int, str] = {}
        for call in self.calls:
            sources = call.work.sources
            parts = dict(zip(sources, shares(sources, self.sources), strict=True))
            for (number, _), share in parts.items():
                beside = [name for (other, name), part in parts.items() if part and other != number]
                others[number] = tuple(dict.fromkeys((*others.get(number, ()), *beside)))
                if not share:
                    continue
                least, most = (us * share for us in call.range_us)
                piece = Piece(call.work, call.us * share, share, (least, most))
                pieces.setdefault(number, []).append(piece)
                places[number] = call.backend
        return pieces, others, places

    def _all_sources(self) -> Mapping[int, SourceOperator]:
        """The operators of the file, and those that planning adds: copies to outputs."""
        added = {
            number: SourceOperator(number, name, call.work.kind)
            for call in self.calls
            for number, name in call.work.sources
            if number not in self.sources
        }
        return {**self.sources, **added}

    def _refusals(self) -> dict[str, str]:
        """Why the operators of a name run in no native code."""
        found = {}
        for row in self.session.placement:
            native = find_backend(str(row["backend"])).describe().is_native
            refused = row["refused"]
            if not native and isinstance(refused, list) and refused:
                found.update(dict.fromkeys(str(row["source"]).split("+"), str(refused[0][1])))
        return found

    def _operator(
        self,
        known: SourceOperator,
        facts: Facts,
        beside: tuple[str, ...],
        backend: str,
        whole_us: float,
    ) -> OperatorRow:
        us, pieces, machine = facts.us, facts.pieces, self.machine
        data = round(sum(piece.work.data_bytes * piece.share for piece in pieces))
        weights = round(sum(piece.work.constant_bytes * piece.share for piece in pieces))
        macs = sum(piece.work.macs * piece.share for piece in pieces)
        least = None
        if machine and pieces:
            least = total((least_times(piece.work, machine), piece.share) for piece in pieces)
        return OperatorRow(
            id=known.id,
            name=known.name,
            kind=known.kind,
            us=us,
            range_us=(sum(p.range_us[0] for p in pieces), sum(p.range_us[1] for p in pieces)),
            share=us / whole_us if whole_us else 0.0,
            macs=known.macs,
            gops=_rate(2 * macs, us),
            data_bytes=data,
            weights_bytes=weights,
            gbs=_rate(data + weights, us),
            output_bytes=known.output_bytes,
            roof=least.us / us if least and us else None,
            bound=least.bound if least else "",
            backend=backend,
            kernels=tuple(dict.fromkeys(piece.work.kernel.partition("(")[0] for piece in pieces)),
            fused_with=beside,
            why=why(facts),
        )


def _rate(count: float, us: float) -> float:
    """So many things in so many microseconds, in thousand millions a second."""
    return count / us / 1e3 if us > 0 else 0.0


def _title(session: Session) -> str:
    source = session.source
    name = getattr(source, "name", None) or getattr(source, "source_path", "")
    return str(source) if isinstance(source, str) or hasattr(source, "__fspath__") else str(name)
