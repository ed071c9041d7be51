"""An inspection as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

from circlet.cli.console import console, line, show_table
from circlet.commands.inspect import Inspection, MemoryRow, TensorRow
from circlet.words import counted

_SHOWN_TENSORS = 3
_EDGES = ("input", "output")
_NUMBERS = frozenset({"count", "operators", "MACs", "share", "other", "bytes", "tensors"})


def show_inspection(found: Inspection, *, every_operator: bool, every_tensor: bool) -> None:
    """Operators, tensors, weights, memory and placement, in that order."""
    out = console()
    ops = sum(row.count for row in found.kinds)
    graphs, operators = counted(found.graphs, "graph"), counted(ops, "operator")
    line(
        out,
        f"{found.model}: {found.format}, {graphs}, {operators}, "
        f"{counted(found.macs, 'multiply-accumulate')}, "
        f"{counted(found.operations, 'other operation')}",
    )
    _show(out, "Operators", *_kinds(found))
    if every_operator:
        _show(out, "Every operator", *_operators(found))
    _show(out, "Tensors", *_tensors(found.tensors, every_tensor))
    if found.signatures:
        _show(out, "Signatures", ("key", "graph", "inputs", "outputs"), _signatures(found))
    if found.weights:
        _show(out, "Weights", ("dtype", "tensors", "bytes"), _weights(found))
    if found.unsupported:
        _show(out, "Cannot be run", ("kind", "source", "reason"), _unsupported(found))
        return
    _show_memory(out, found.memory)
    _show(out, "Placement", *_places(found))


def _kinds(found: Inspection) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    headings = ("kind", "count", "MACs", "share", "other", "bytes", "share")
    rows = (
        (
            row.kind,
            str(row.count),
            f"{row.macs:,}",
            f"{row.macs_share:.1%}",
            f"{row.operations:,}",
            f"{row.bytes:,}",
            f"{row.bytes_share:.1%}",
        )
        for row in found.kinds
    )
    return headings, rows


def _operators(found: Inspection) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    rows = (
        (
            row.kind,
            row.source,
            f"{row.macs:,}",
            f"{row.macs_share:.1%}",
            f"{row.operations:,}",
            f"{row.bytes:,}",
        )
        for row in found.operators
    )
    return ("kind", "source", "MACs", "share", "other", "bytes"), rows


def _tensors(
    tensors: Sequence[TensorRow], every: bool
) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    shown = [row for row in tensors if every or (row.graph == 0 and row.role in _EDGES)]
    headings: tuple[str, ...] = ("role", "dtype", "shape", "bytes", "name")
    rows: Iterable[Sequence[str]] = [
        (row.role, row.dtype, _shape(row.shape), f"{row.size_bytes:,}", row.name) for row in shown
    ]
    if any(row.declared != row.shape for row in shown):
        headings = (*headings[:3], "in the file", *headings[3:])
        pairs = zip(shown, rows, strict=True)
        rows = [(*row[:3], _shape(tensor.declared), *row[3:]) for tensor, row in pairs]
    if every and any(row.graph for row in shown):
        headings = ("graph", *headings)
        rows = ((str(tensor.graph), *row) for tensor, row in zip(shown, rows, strict=True))
    return headings, rows


def _signatures(found: Inspection) -> Iterable[Sequence[str]]:
    for row in found.signatures:
        yield row.key, str(row.graph), ", ".join(row.inputs), ", ".join(row.outputs)


def _weights(found: Inspection) -> Iterable[Sequence[str]]:
    return ((row.dtype, str(row.count), f"{row.size_bytes:,}") for row in found.weights)


def _places(found: Inspection) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    rows = [(row.kind, str(row.count), row.backend, row.refused) for row in found.placement]
    headings = ("kind", "operators", "backend", "refused by")
    shown = 4 if any(row.refused for row in found.placement) else 3
    return headings[:shown], (row[:shown] for row in rows)


def _unsupported(found: Inspection) -> Iterable[Sequence[str]]:
    return ((entry.kind, entry.source, entry.reason) for entry in found.unsupported)


def _show_memory(out: Console, memory: Sequence[MemoryRow]) -> None:
    out.print()
    out.print("Memory", style="italic")
    for row in memory:
        for text in _memory_lines(row):
            line(out, text)
    if not memory:
        out.print("nothing is native, so there is no arena")


def _memory_lines(row: MemoryRow) -> Iterator[str]:
    yield (
        f"partition {row.partition} ({counted(row.ops, 'fused operator')}): "
        f"arena {row.arena_bytes:,} bytes ({row.planner}), lower bound {row.lower_bound_bytes:,}, "
        f"packed constants {row.constants_bytes:,}, scratch {row.scratch_bytes:,} a thread"
    )
    if row.rounded_ops:
        yield f"  {counted(row.rounded_ops, 'fused operator')} in bf16"
    for name, count, size in row.stripes:
        yield f"  {name}: {counted(count, 'stripe')}, rows in {size:,} of scratch"
    if not row.peak_tensors:
        return
    yield f"  peak at {row.peak_op} ({row.peak_kind}), the largest of what is alive there:"
    for name, size in row.peak_tensors[:_SHOWN_TENSORS]:
        yield f"  {size:>12,}  {name}"


def _show(out: Console, title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    out.print()
    show_table(out, headings, list(rows), title=title, numbers=_NUMBERS)


def _shape(shape: Sequence[int | None]) -> str:
    return "x".join("?" if size is None else str(size) for size in shape) or "scalar"
