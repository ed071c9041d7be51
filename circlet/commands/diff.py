"""What `circlet diff` does, as a function: two networks operator by operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from circlet.commands.diff_values import ValueReport, ValueRequest, compare_values
from circlet.commands.differences import Difference, end_differences, op_differences
from circlet.commands.match import Match, match
from circlet.formats import load
from circlet.ir import Model, Op
from circlet.ir.file_operators import file_operators
from circlet.ops.opdef import cost_of
from circlet.ops.work import main_op
from circlet.options import DEFAULT_OPTIONS, Options


@dataclass(frozen=True)
class DiffRequest:
    """What `circlet diff` is asked for; `values` None compares no values."""

    first: Path
    second: Path
    options: Options = DEFAULT_OPTIONS
    values: ValueRequest | None = None


@dataclass(frozen=True)
class Totals:
    """One of the networks: what it holds and costs."""

    model: str
    format: str
    ops: int
    kinds: dict[str, int]
    macs: int
    bytes: int
    weight_bytes: int


@dataclass(frozen=True)
class OpRow:
    """What was read of an operator: its place in the file, its kind, its name, what it costs."""

    number: int
    kind: str
    name: str
    macs: int
    bytes: int


@dataclass(frozen=True)
class PairRow:
    """Operators that do the same work in both networks, and what differs between them."""

    first: tuple[OpRow, ...]
    second: tuple[OpRow, ...]
    by: str
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class DiffReport:
    """How two networks differ.

    Attributes:
        pairs: Operators that were recognised in both, in the order of the first network.
        recognised: How many of them by what.
        only_first, only_second: Those that were not.
        ends: What differs between inputs and outputs of the networks.
        is_same: Whether nothing of all this, nor any value, differs.
    """

    first: Totals
    second: Totals
    recognised: dict[str, int]
    pairs: tuple[PairRow, ...]
    only_first: tuple[OpRow, ...]
    only_second: tuple[OpRow, ...]
    ends: tuple[Difference, ...]
    is_same: bool
    values: ValueReport | None = None


def diff_models(request: DiffRequest) -> DiffReport:
    """Compare two networks, of whatever formats.

    Raises:
        CircletError: As `load`; and as `Session` and `Session.run` where values are compared.
    """
    first, second = (load(path, request.options.limits) for path in (request.first, request.second))
    rows = _Rows(first), _Rows(second)
    found = match(first, second)
    pairs = tuple(_pair_row(one, *rows) for one in found.matches)
    ends = tuple(end_differences(first, second))
    only = (
        tuple(map(rows[0].row, found.only_first)),
        tuple(map(rows[1].row, found.only_second)),
    )
    values = None
    if request.values is not None:
        values = compare_values(
            (request.first, first), (request.second, second), found, request.values, request.options
        )
    is_same = not (any(pair.differences for pair in pairs) or any(only) or ends)
    return DiffReport(
        _totals(request.first, first, rows[0]),
        _totals(request.second, second, rows[1]),
        dict(Counter(pair.by for pair in pairs)),
        pairs,
        *only,
        ends,
        is_same and (values is None or values.first_different is None),
        values,
    )


class _Rows:
    """The rows of a network's operators, each made once."""

    def __init__(self, model: Model) -> None:
        self.operators = file_operators(op for graph in model.graphs for op in graph.ops)
        self._rows = {
            op: _op_row(number, op) for number, ops in enumerate(self.operators) for op in ops
        }

    def row(self, op: Op) -> OpRow:
        return self._rows[op]

    def all(self) -> Iterable[OpRow]:
        return self._rows.values()


def _op_row(number: int, op: Op) -> OpRow:
    cost = cost_of(op)
    return OpRow(number, op.label, op.name, cost.macs, cost.bytes)


def _totals(path: Path, model: Model, rows: _Rows) -> Totals:
    every = list(rows.all())
    weights = {id(t.data): t.data for graph in model.graphs for t in graph.constants()}
    return Totals(
        str(path),
        model.source_format,
        len(rows.operators),
        dict(sorted(Counter(main_op(ops).label for ops in rows.operators).items())),
        sum(row.macs for row in every),
        sum(row.bytes for row in every),
        sum(array.nbytes for array in weights.values() if array is not None),
    )


def _pair_row(found: Match, first: _Rows, second: _Rows) -> PairRow:
    one, other = found.first, found.second
    if len(one) == len(other) == 1:
        differences = list(op_differences(one[0], other[0]))
    else:
        kinds = [" + ".join(op.label for op in ops) for ops in (one, other)]
        differences = [Difference("operators", "", *kinds)]
        for first_op, second_op in _counterparts(found):
            differences += op_differences(first_op, second_op)
    rows = tuple(map(first.row, one)), tuple(map(second.row, other))
    differences += _costs(*rows)
    return PairRow(*rows, found.by, tuple(differences))


def _counterparts(found: Match) -> Iterator[tuple[Op, Op]]:
    """Operators of a group that are the only ones of their kind on both sides."""
    sides = [Counter(op.label for op in ops) for ops in (found.first, found.second)]
    for op in found.first:
        if sides[0][op.label] == sides[1][op.label] == 1:
            yield op, next(other for other in found.second if other.label == op.label)


def _costs(first: Sequence[OpRow], second: Sequence[OpRow]) -> Iterator[Difference]:
    sums = [(sum(op.macs for op in ops), sum(op.bytes for op in ops)) for ops in (first, second)]
    for what, one, other in zip(("MACs", "bytes moved"), *sums, strict=True):
        if one != other:
            yield Difference("cost", what, f"{one:,}", f"{other:,}")
