"""What a network costs, found without compiling or running it: `circlet inspect` as a function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from circlet.backends.base import MemoryUse
from circlet.compiler.planning import PlannedModel, plan, set_shapes_of
from circlet.compiler.template import Template
from circlet.errors import CircletError, UnsupportedOp, UnsupportedOpsError
from circlet.formats import load
from circlet.ir import Graph, Model, Op, Shape, Tensor
from circlet.ir.copy import copy_of
from circlet.ir.file_operators import file_operators
from circlet.ops.opdef import cost_of
from circlet.ops.work import main_op
from circlet.options import Options
from circlet.passes.fold_constants import FoldLedger
from circlet.plan.shapes import fix_shapes

Declared = Sequence[Sequence[Shape]]


@dataclass(frozen=True)
class OperatorRow:
    """One operator of the file.

    `macs`, `operations` (other arithmetic, comparisons) and `bytes` are those of its record;
    `macs_share` is its part of the network's.
    """

    source: str
    kind: str
    macs: int
    operations: int
    bytes: int
    macs_share: float


@dataclass(frozen=True)
class KindRow:
    """All operators of one kind together."""

    kind: str
    count: int
    macs: int
    operations: int
    bytes: int
    macs_share: float
    bytes_share: float


@dataclass(frozen=True)
class TensorRow:
    """One tensor.

    Attributes:
        shape: Its sizes as a session settles them; None for those that depend on the data of a run.
        size_bytes: Of that shape, 1 standing for what depends on data.
        role: input, output, constant, variable or computed.
        graph: The number of its graph.
        declared: The sizes as the file has them, None for those that it leaves open.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    size_bytes: int
    role: str
    graph: int = 0
    declared: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class SignatureRow:
    """An entry point: its key, and the names that it gives to inputs and outputs of its graph."""

    key: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    graph: int


@dataclass(frozen=True)
class WeightRow:
    """The constants of one dtype."""

    dtype: str
    count: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class MemoryRow(MemoryUse):
    """The working memory of a partition: its position in the plan, how many fused operators."""

    partition: int
    ops: int


@dataclass(frozen=True)
class PlaceRow:
    """What one backend runs of one kind, and why others refused it.

    `count` operators of the file have a part in it; `sources` are their names.
    """

    kind: str
    backend: str
    count: int
    refused: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Inspection:
    """What is known of a network before it runs.

    `operators`, `kinds`, `tensors`, `weights` and `signatures` are those of the file, `memory` and
    `placement` those of the network after its passes; both are empty where `unsupported` is not.
    """

    model: str
    format: str
    graphs: int
    macs: int
    operations: int
    kinds: tuple[KindRow, ...]
    operators: tuple[OperatorRow, ...]
    tensors: tuple[TensorRow, ...]
    weights: tuple[WeightRow, ...]
    memory: tuple[MemoryRow, ...]
    placement: tuple[PlaceRow, ...]
    unsupported: tuple[UnsupportedOp, ...] = ()
    signatures: tuple[SignatureRow, ...] = ()


def inspect_model(path: Path, options: Options | None = None) -> Inspection:
    """Inspect a model file; the memory plan is that of the first target.

    Raises:
        CircletError: As `circlet.compiler.compile.compile_model`, but for unsupported operators.
    """
    options = options or Options()
    model = load(path, options.limits)
    planned = planned_copy(model, options)
    declared = [[tensor.shape for tensor in graph.tensors] for graph in model.graphs]
    operators, tensors = _rows(settled(model, planned, options), declared)
    weights = tuple(_weights(model))
    found = Inspection(
        model=str(path),
        format=model.source_format,
        graphs=len(model.graphs),
        macs=sum(row.macs for row in operators),
        operations=sum(row.operations for row in operators),
        kinds=tuple(_kinds(operators)),
        operators=operators,
        tensors=tensors,
        weights=weights,
        memory=(),
        placement=(),
        signatures=tuple(_signatures(model)),
    )
    if not isinstance(planned, PlannedModel):
        return replace(found, unsupported=planned)
    return replace(found, memory=tuple(_memory(planned)), placement=tuple(_placement(planned)))


def planned_copy(model: Model, options: Options) -> PlannedModel | tuple[UnsupportedOp, ...]:
    """The plan of a model, which stays as it is; or the operators for which there is none.

    Raises:
        CircletError: As `plan`, but for unsupported operators.
    """
    try:
        return plan(Template.of(copy_of(model), options), options)
    except UnsupportedOpsError as error:
        return error.entries


def settled(
    model: Model, planned: PlannedModel | tuple[UnsupportedOp, ...], options: Options
) -> Model:
    """The model with the sizes that a session settles at first."""
    if not (options.shapes or _is_open(model)):
        return model
    own = planned.shapes if isinstance(planned, PlannedModel) else ()
    model = copy_of(model)
    listed = [(graph, list(graph.ops), list(graph.tensors)) for graph in model.graphs]
    origins = [(op, op.origin) for graph in model.graphs for op in graph.ops]
    budget = options.limits.memory_budget(model.source_bytes)
    with suppress(CircletError):  # what cannot be settled stays as the file has it
        set_shapes_of(model.main, (*options.shapes, *own))
        fix_shapes(model.main, options.limits, ledger=FoldLedger(budget))
    for graph, ops, tensors in listed:  # those that were folded on the way are the file's, too
        graph.ops[:], graph.tensors[:] = ops, tensors
    for op, origin in origins:  # folding unites them
        op.origin = origin
    return model


def _is_open(model: Model) -> bool:
    """Whether the file leaves a size open."""
    tensors = (tensor for graph in model.graphs for tensor in graph.tensors)
    return any(None in tensor.shape or not tensor.has_rank for tensor in tensors)


def _rows(
    model: Model, declared: Declared
) -> tuple[tuple[OperatorRow, ...], tuple[TensorRow, ...]]:
    tensors = tuple(
        _tensor_row(tensor, graph, number, sizes)
        for number, graph in enumerate(model.graphs)
        for tensor, sizes in zip(graph.tensors, declared[number], strict=True)
    )
    return _operators([op for graph in model.graphs for op in graph.ops]), tensors


def _operators(ops: Sequence[Op]) -> tuple[OperatorRow, ...]:
    """A row for each operator of the file."""
    rows = [_operator(parts) for parts in file_operators(ops)]
    whole = sum(row.macs for row in rows)
    return tuple(replace(row, macs_share=_share(row.macs, whole)) for row in rows)


def _operator(ops: Sequence[Op]) -> OperatorRow:
    costs = [cost_of(op) for op in ops]
    return OperatorRow(
        source=ops[0].name,
        kind=main_op(ops).label,
        macs=sum(cost.macs for cost in costs),
        operations=sum(cost.arithmetic + cost.operations for cost in costs),
        bytes=sum(cost.bytes for cost in costs),
        macs_share=0.0,
    )


def _kinds(operators: Sequence[OperatorRow]) -> Iterator[KindRow]:
    """One row per kind, the costliest first."""
    macs, sizes, counts, others = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for row in operators:
        macs[row.kind] += row.macs
        sizes[row.kind] += row.bytes
        others[row.kind] += row.operations
        counts[row.kind] += 1
    all_macs, all_bytes = macs.total(), sizes.total()
    for kind in sorted(counts, key=lambda kind: (-macs[kind], -others[kind], -sizes[kind], kind)):
        shares = _share(macs[kind], all_macs), _share(sizes[kind], all_bytes)
        yield KindRow(kind, counts[kind], macs[kind], others[kind], sizes[kind], *shares)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _signatures(model: Model) -> Iterator[SignatureRow]:
    for signature in model.signatures:
        number = model.graphs.index(signature.graph)
        yield SignatureRow(signature.key, tuple(signature.inputs), tuple(signature.outputs), number)


def _tensor_row(tensor: Tensor, graph: Graph, number: int, declared: Shape) -> TensorRow:
    facts = tensor.name, tensor.dtype.name, tensor.shape, _bytes(tensor)
    return TensorRow(*facts, _role(tensor, graph), number, declared)


def _role(tensor: Tensor, graph: Graph) -> str:
    if tensor in graph.inputs:
        return "input"
    if tensor in graph.outputs:
        return "output"
    if tensor.is_constant:
        return "constant"
    return "variable" if tensor.is_variable else "computed"


def _bytes(tensor: Tensor) -> int:
    return tensor.size_bytes if tensor.data is None else tensor.data.nbytes


def _weights(model: Model) -> Iterator[WeightRow]:
    """Constants by dtype, the largest share first; data that tensors share counts once."""
    found: dict[str, dict[tuple[int, int], int]] = {}
    for tensor in (tensor for graph in model.graphs for tensor in graph.constants()):
        assert tensor.data is not None
        place = tensor.data.ctypes.data, tensor.data.nbytes
        found.setdefault(tensor.dtype.name, {})[place] = tensor.data.nbytes
    for dtype, sizes in sorted(found.items(), key=lambda item: -sum(item[1].values())):
        yield WeightRow(dtype, len(sizes), sum(sizes.values()))


def _memory(planned: PlannedModel) -> Iterator[MemoryRow]:
    by_name = {compiler.name: compiler for compiler in planned.compilers}
    for number, part in enumerate(planned.partitions):
        use = by_name[part.backend].memory(part)
        if use is not None:
            yield MemoryRow(partition=number, ops=len(part.ops), **vars(use))


def _placement(planned: PlannedModel) -> Iterator[PlaceRow]:
    """Rows of the placement table with equal kind, backend and reasons, in order of first use."""
    groups: dict[tuple[str, str, str], list[Op]] = {}
    for row in planned.placed:
        reasons = "; ".join(f"{name}: {why}" for name, why in row.refused)
        groups.setdefault((row.op.label, row.backend, reasons), []).append(row.op)
    for (kind, backend, reasons), ops in groups.items():
        sources = tuple(op.name for op in ops)
        yield PlaceRow(kind, backend, planned.operators_in(ops), reasons, sources)
