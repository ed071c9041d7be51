"""An inspection as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from circlet.runtime.inspection import Inspection, MemoryRow, TensorRow

_SHOWN_TENSORS = 3


def show_inspection(found: Inspection, *, every_operator: bool, every_tensor: bool) -> None:
    """Operators, tensors, weights, memory and placement, in that order."""
    console = Console(highlight=False, soft_wrap=True)
    ops = sum(row.count for row in found.kinds)
    console.print(
        f"{found.model}: {found.format}, {found.graphs} graphs, {ops} operators, "
        f"{found.macs:,} multiply-accumulates",
        markup=False,
    )
    _show(console, "Operators", *_kinds(found))
    if every_operator:
        _show(console, "Every operator", *_operators(found))
    _show(console, "Tensors", *_tensors(found.tensors, every_tensor))
    _show(console, "Weights", ("dtype", "tensors", "bytes"), _weights(found))
    if found.unsupported:
        _show(console, "Cannot be run", ("kind", "source", "reason"), _unsupported(found))
        return
    _show_memory(console, found.memory)
    _show(console, "Placement", ("kind", "count", "backend", "refused by"), _places(found))


def _kinds(found: Inspection) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    headings = ("kind", "count", "MACs", "share", "bytes", "share")
    rows = (
        (
            row.kind,
            str(row.count),
            f"{row.macs:,}",
            f"{row.macs_share:.1%}",
            f"{row.bytes:,}",
            f"{row.bytes_share:.1%}",
        )
        for row in found.kinds
    )
    return headings, rows


def _operators(found: Inspection) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    rows = (
        (row.kind, row.source, f"{row.macs:,}", f"{row.macs_share:.1%}", f"{row.bytes:,}")
        for row in found.operators
    )
    return ("kind", "source", "MACs", "share", "bytes"), rows


def _tensors(
    tensors: Sequence[TensorRow], every: bool
) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    shown = [row for row in tensors if every or row.role in ("input", "output")]
    rows = (
        (row.role, row.dtype, _shape(row.shape), f"{row.size_bytes:,}", row.name) for row in shown
    )
    return ("role", "dtype", "shape", "bytes", "name"), rows


def _weights(found: Inspection) -> Iterable[Sequence[str]]:
    return ((row.dtype, str(row.count), f"{row.size_bytes:,}") for row in found.weights)


def _places(found: Inspection) -> Iterable[Sequence[str]]:
    return ((row.kind, str(row.count), row.backend, row.refused) for row in found.placement)


def _unsupported(found: Inspection) -> Iterable[Sequence[str]]:
    return ((entry.kind, entry.source, entry.reason) for entry in found.unsupported)


def _show_memory(console: Console, memory: Sequence[MemoryRow]) -> None:
    console.print()
    console.print("Memory", style="italic")
    for row in memory:
        console.print(
            f"partition {row.partition} ({row.ops} operators): arena {row.arena_bytes:,} bytes "
            f"({row.planner}), lower bound {row.lower_bound_bytes:,}, "
            f"packed constants {row.constants_bytes:,}, scratch {row.scratch_bytes:,} a thread",
            markup=False,
        )
        if row.rounded_ops:
            console.print(f"  {row.rounded_ops} operators in bf16", markup=False)
        for name, count, size in row.bands:
            console.print(f"  {name}: {count} bands, rows in {size:,} of scratch", markup=False)
        largest = ", ".join(f"{name} {size:,}" for name, size in row.peak_tensors[:_SHOWN_TENSORS])
        if largest:
            console.print(f"  peak at {row.peak_op} ({row.peak_kind}): {largest}", markup=False)
    if not memory:
        console.print("nothing is native, so there is no arena")


def _show(
    console: Console, title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    table = Table(title=title, title_justify="left", box=None)
    numbers = {"count", "MACs", "share", "bytes", "tensors"}
    for heading in headings:
        justify = "right" if heading in numbers else "left"
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def _shape(shape: Sequence[int | None]) -> str:
    return "x".join("?" if size is None else str(size) for size in shape) or "scalar"
