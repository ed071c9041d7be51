"""A profile as tables for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from circlet.cli.common import duration
from circlet.cli.console import console, line, say, show_table
from circlet.commands.profile import ProfileReport, TensorRow
from circlet.profiling import OperatorRow, Profile
from circlet.profiling.export.tables import BETWEEN
from circlet.words import counted, shortened

_HEADINGS = ("us", "time", "MACs", "GB/s", "roof", "KiB", "kind", "source", "why")
_NAME_WIDTH = 44
_SHOWN_OTHERS = 2
_NUMBERS = frozenset({"us", "time", "MACs", "GB/s", "roof", "KiB", "least", "most", "mean"})


def show_profile(report: ProfileReport, top: int | None) -> None:
    """The run as a whole, its operators, and the tensors that were asked for."""
    out, profile = console(), report.profile
    for warning in profile.warnings:
        say(f"warning: {warning}", err=True)
    _show_whole(out, profile)
    rows = [*(_cells(row) for row in _shown(profile, top)), *_rest(profile, top)]
    show_table(out, _HEADINGS, rows, numbers=_NUMBERS)
    if report.tensors:
        line(out, "")
        headings = ("tensor", "dtype", "level", "least", "most", "mean")
        show_table(out, headings, list(map(_tensor, report.tensors)), numbers=_NUMBERS)
    for path, what in ((report.trace, "trace"), (report.saved, "tensors")):
        if path:
            line(out, f"{what} written to {path}")


def _show_whole(out: Console, profile: Profile) -> None:
    line(
        out,
        f"{profile.model}: {duration(profile.whole_us / 1e6)} a run "
        f"({duration(profile.plain_us / 1e6)} with nothing timed), "
        f"{counted(profile.runs, 'run')}, {counted(profile.threads, 'thread')}, {profile.level}",
    )
    if profile.peaks is not None:
        peaks = {name: f"{value:.0f}" for name, value in _numbers(profile)}
        line(
            out,
            f"a core of this machine does at most {peaks['fp32_gflops']} GFLOP/s in fp32, "
            f"{peaks['int8_gops']} GOP/s in int8, {peaks['int16_gops']} GOP/s in int16",
        )


def _numbers(profile: Profile) -> Iterator[tuple[str, float]]:
    for name, value in (profile.peaks or {}).items():
        if isinstance(value, (int, float)):
            yield name, value


def _shown(profile: Profile, top: int | None) -> list[OperatorRow]:
    return list(profile.operators) if top is None else profile.slowest()[:top]


def _cells(row: OperatorRow) -> tuple[str, ...]:
    memory = (row.output_bytes + row.weights_bytes) / 1024
    others = ", ".join(shortened(name, _NAME_WIDTH) for name in row.fused_with[:_SHOWN_OTHERS])
    more = len(row.fused_with) - _SHOWN_OTHERS
    beside = f"; one kernel with {others}" if others and row.us else ""
    if beside and more > 0:
        beside += f" and {more} more"
    return (
        f"{row.us:.2f}",
        f"{row.share:.1%}",
        f"{row.macs:,}",
        f"{row.gbs:.1f}",
        "" if row.roof is None else f"{row.roof:.0%}",
        f"{memory:,.1f}",
        row.kind,
        shortened(row.name, _NAME_WIDTH),
        row.why + beside,
    )


def _rest(profile: Profile, top: int | None) -> Iterator[tuple[str, ...]]:
    """Rows of what is left: operators that are not shown, and the time in none of them."""
    hidden = [] if top is None else profile.slowest()[top:]
    if hidden:
        us = sum(row.us for row in hidden)
        yield _sum(us, us / profile.whole_us, counted(len(hidden), "other"))
    for row in profile.transfers:
        yield _sum(row.us, row.us / profile.whole_us, row.title)
    yield _sum(profile.between_us, profile.between_us / profile.whole_us, BETWEEN)
    yield _sum(profile.whole_us, 1.0, "the whole run")


def _sum(us: float, share: float, name: str) -> tuple[str, ...]:
    return (f"{us:.2f}", f"{share:.1%}", "", "", "", "", "", name, "")


def _tensor(row: TensorRow) -> tuple[str, ...]:
    numbers = ("" if value is None else f"{value:.6g}" for value in (row.least, row.most, row.mean))
    sizes = "x".join(map(str, row.shape))
    return (row.name, f"{row.dtype}[{sizes}]", row.level, *numbers)
