"""The operators of the user's file, with what they cost as the file has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from circlet.compiler.planning import set_shapes_of
from circlet.compiler.template import Source
from circlet.errors import CircletError
from circlet.formats import load
from circlet.formats.about import graph_number
from circlet.ir import Graph, Model, Op, Origin, Tensor
from circlet.ir.copy import copy_of
from circlet.ir.regions import reachable
from circlet.ops.opdef import Cost, cost_of
from circlet.options import Options
from circlet.passes.fold_constants import FoldLedger
from circlet.plan.shapes import fix_shapes


@dataclass(frozen=True)
class SourceOperator:
    """One operator of the file.

    Attributes:
        id, name, kind: As the origins of what it becomes name it.
        macs: Multiply-accumulates of one pass, by its record.
        computing: Elementary operations of one pass, multiply-accumulates among them.
        bytes: Of its operands and results.
        output_bytes: Of its results.
        subnormals: Float weights nearer to 0 than normal numbers are, which cost processors time.
    """

    id: int
    name: str
    kind: str
    macs: int = 0
    computing: int = 0
    bytes: int = 0
    output_bytes: int = 0
    subnormals: int = 0


def source_operators(source: Source, options: Options) -> dict[int, SourceOperator]:
    """All operators that a network's entry point reaches, by id, in the order of the file.

    An operator of a file that descends from several (as the file itself says) stands for each of
    them with an equal part of its cost. What reading makes several of (as of operators of .onnx
    files) is one again, by the kind of the costliest. What is computed of constants costs nothing.
    """
    model = copy_of(source) if isinstance(source, Model) else load(source, options.limits)
    graph = model.graphs[graph_number(model, options.signature)]
    ops = [op for part in reachable(graph) for op in part.ops]
    origins = [op.origin for op in ops]  # folding unites them
    constant = _constant(ops)
    _settle(graph, options)
    folded = constant | _gone(ops, graph)
    found: dict[int, SourceOperator] = {}
    for op, origin in zip(ops, origins, strict=True):
        for row in _rows(op, origin, is_folded=op in folded):
            known = found.get(row.id)
            found[row.id] = row if known is None else _sum(known, row)
    return dict(sorted(found.items()))


def _constant(ops: Sequence[Op]) -> set[Op]:
    """The operators that compute constants of constants, before any run."""
    made: set[Tensor] = set()
    found: set[Op] = set()
    for op in ops:
        inputs = [tensor for tensor in op.inputs if tensor is not None]
        if inputs and all(tensor.is_constant or tensor in made for tensor in inputs):
            found.add(op)
            made.update(op.outputs)
    return found


def _settle(graph: Graph, options: Options) -> None:
    """Give all tensors the sizes of a session; what cannot be settled stays as the file has it."""
    with suppress(CircletError):
        set_shapes_of(graph, options.shapes)
        budget = options.limits.memory_budget(0)
        fix_shapes(graph, options.limits, ledger=FoldLedger(budget))


def _gone(ops: Sequence[Op], graph: Graph) -> set[Op]:
    """The operators that settling sizes computed, and put no other in the place of."""
    left = {op for part in reachable(graph) for op in part.ops}
    others = {source.id for op in left.difference(ops) for source in op.origin.sources}
    return {
        op for op in ops if op not in left and others.isdisjoint(s.id for s in op.origin.sources)
    }


def shares(
    sources: Sequence[tuple[int, str]], known: Mapping[int, SourceOperator]
) -> tuple[float, ...]:
    """How the time of a kernel is divided among the operators that it computes.

    By their modelled cost: elementary operations where any of them computes, else bytes moved.
    What only moves data takes no time where a kernel computes besides, and what is computed of
    constants, before any run, none at all. Equal parts where nothing is known of any.
    """
    rows = [known.get(number, SourceOperator(number, name, "")) for number, name in sources]
    for weights in ([row.computing for row in rows], [row.bytes for row in rows], [1] * len(rows)):
        whole = sum(weights)
        if whole:
            return tuple(weight / whole for weight in weights)
    return ()


def _rows(op: Op, origin: Origin, *, is_folded: bool) -> Iterator[SourceOperator]:
    cost, parts = Cost() if is_folded else cost_of(op), len(origin.sources)
    made = sum(tensor.size_bytes for tensor in op.outputs)
    subnormals = sum(_subnormals(tensor) for tensor in op.inputs if tensor is not None)
    for source in origin.sources:
        yield SourceOperator(
            source.id,
            source.name,
            op.label,
            cost.macs // parts,
            (cost.computing + cost.operations) // parts,
            cost.bytes // parts,
            made // parts,
            subnormals,
        )


def _subnormals(tensor: Tensor) -> int:
    """How many numbers of a float32 constant are neither 0 nor normal."""
    if tensor.data is None or tensor.data.dtype != np.float32:
        return 0
    tiny = np.abs(tensor.data) < np.finfo(np.float32).tiny
    return int(np.count_nonzero(tensor.data[tiny]))


def _sum(one: SourceOperator, other: SourceOperator) -> SourceOperator:
    """Both as one operator, which became several when it was read, of the costlier one's kind."""
    heavier = max(one, other, key=lambda row: (row.computing, row.bytes))
    return SourceOperator(
        one.id,
        one.name,
        heavier.kind,
        one.macs + other.macs,
        one.computing + other.computing,
        one.bytes + other.bytes,
        other.output_bytes,
        one.subnormals + other.subnormals,
    )
