"""The differences of two networks as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from circlet.cli.console import console, line, show_table
from circlet.commands.diff import DiffReport, OpRow, PairRow
from circlet.commands.diff_values import ValueReport, ValueRow
from circlet.commands.measures import Measures
from circlet.words import counted, shortened

_MEASURES = ("differ", "largest error", "MAE", "MAPE", "MPEIR", "MSE", "SNR", "top")


def show_diff(report: DiffReport, *, every: bool) -> None:
    """Totals, operators that differ, those of one network alone, and values."""
    out = console()
    _show_totals(out, report)
    by = ", ".join(f"{count} by {what}" for what, count in report.recognised.items())
    line(out, f"{counted(len(report.pairs), 'operator')} recognised in both ({by or 'none'})")
    pairs = [pair for pair in report.pairs if every or pair.differences]
    rows = [row for pair in pairs for row in _pair_rows(pair)]
    rows += [("the network", d.what, d.where, d.first, d.second) for d in report.ends]
    if rows:
        out.print()
        headings = ("operator", "what", "where", "first", "second")
        show_table(out, headings, rows, title="Differences")
    for which, only in (("first", report.only_first), ("second", report.only_second)):
        if only:
            out.print()
            cells = [
                (f"#{row.number}", row.kind, shortened(row.name), f"{row.macs:,}") for row in only
            ]
            title, numbers = f"Only in the {which}", {"#", "MACs"}
            show_table(out, ("#", "kind", "operator", "MACs"), cells, title=title, numbers=numbers)
    if report.values is not None:
        _show_values(out, report.values, every)
    if report.is_same:
        line(out, "nothing differs")


def _show_totals(out: Console, report: DiffReport) -> None:
    rows = []
    for total in (report.first, report.second):
        numbers = (total.ops, total.macs, total.bytes, total.weight_bytes)
        rows.append((total.model, total.format, *(f"{number:,}" for number in numbers)))
    headings = ("network", "format", "operators", "MACs", "bytes moved", "bytes of weights")
    show_table(out, headings, rows, numbers=set(headings[2:]))
    kinds = dict.fromkeys([*report.first.kinds, *report.second.kinds])
    counts = [(k, report.first.kinds.get(k, 0), report.second.kinds.get(k, 0)) for k in kinds]
    changed = [f"{kind} {one} -> {other}" for kind, one, other in counts if one != other]
    if changed:
        line(out, f"operators: {', '.join(changed)}")


def _pair_rows(pair: PairRow) -> list[tuple[str, ...]]:
    name = shortened(pair.first[-1].name)
    if not pair.differences:
        return [(name, "same", f"by {pair.by}", _kinds(pair.first), _kinds(pair.second))]
    return [(name, d.what, d.where, d.first, d.second) for d in pair.differences]


def _kinds(ops: Sequence[OpRow]) -> str:
    return " + ".join(row.kind for row in ops)


def _show_values(out: Console, values: ValueReport, every: bool) -> None:
    out.print()
    shown = [row for row in values.rows if every or row.is_output or row.is_different]
    rows = [_value_cells(row) for row in shown]
    headings = ("tensor", "kind", *_MEASURES)
    runs = counted(values.runs, "run")
    title = f"Values at O0 on {values.inputs} ({runs}, tolerance {values.tolerance:g})"
    show_table(out, headings, rows, title=title, numbers=set(_MEASURES))
    seen = counted(len(values.rows), "tensor")
    if values.first_different is None:
        line(out, f"{seen} compared, none differs")
        return
    first = values.rows[values.first_different]
    count = sum(row.is_different for row in values.rows)
    line(out, f"{seen} compared, {count:,} differ")
    line(out, f"the first operator that differs is {shortened(first.source)} ({first.kind})")


def _value_cells(row: ValueRow) -> tuple[str, ...]:
    name = shortened(row.first) + (" (output)" if row.is_output else "")
    if row.measures is None:
        return (name, row.kind, row.why_not, *[""] * (len(_MEASURES) - 1))
    top = "" if row.top is None else f"{row.top:.0%}"
    return (name, row.kind, *_measure_cells(row.measures), top)


def _measure_cells(found: Measures) -> tuple[str, ...]:
    return (
        f"{found.different:.1%}",
        f"{found.largest:.3g}",
        f"{found.mae:.3g}",
        f"{found.mape:.3g}%",
        f"{found.peir:.3g}",
        f"{found.mse:.3g}",
        f"{found.snr:.1f} dB",
    )
