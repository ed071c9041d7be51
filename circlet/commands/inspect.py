"""What a network costs, found without compiling or running it: `circlet inspect` as a function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from circlet.backends.base import MemoryUse
from circlet.compiler.planning import PlannedModel, plan
from circlet.compiler.template import Template
from circlet.errors import UnsupportedOp, UnsupportedOpsError
from circlet.formats import load
from circlet.ir import Graph, Model, Op, Tensor
from circlet.ops import find
from circlet.options import Options
from circlet.placement.rule import Placed


@dataclass(frozen=True)
class OperatorRow:
    """One operator of the file.

    `macs` and `bytes` are those of its record; `macs_share` is its part of the network's.
    """

    source: str
    kind: str
    macs: int
    bytes: int
    macs_share: float


@dataclass(frozen=True)
class KindRow:
    """All operators of one kind together."""

    kind: str
    count: int
    macs: int
    bytes: int
    macs_share: float
    bytes_share: float


@dataclass(frozen=True)
class TensorRow:
    """One tensor; `role` is input, output, constant, variable or computed, `graph` is numbered."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    size_bytes: int
    role: str
    graph: int = 0


@dataclass(frozen=True)
class WeightRow:
    """The constants of one dtype."""

    dtype: str
    count: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class MemoryRow(MemoryUse):
    """The working memory of a partition: its position in the plan, and how many ops it has."""

    partition: int
    ops: int


@dataclass(frozen=True)
class PlaceRow:
    """Operators of one kind that one backend runs, and why others refused them."""

    kind: str
    backend: str
    count: int
    refused: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Inspection:
    """What is known of a network before it runs.

    `operators`, `kinds`, `tensors` and `weights` are those of the file, `memory` and `placement`
    those of the network after its passes; both are empty where `unsupported` is not.
    """

    model: str
    format: str
    graphs: int
    macs: int
    kinds: tuple[KindRow, ...]
    operators: tuple[OperatorRow, ...]
    tensors: tuple[TensorRow, ...]
    weights: tuple[WeightRow, ...]
    memory: tuple[MemoryRow, ...]
    placement: tuple[PlaceRow, ...]
    unsupported: tuple[UnsupportedOp, ...] = ()


def inspect_model(path: Path, options: Options | None = None) -> Inspection:
    """Inspect a model file; the memory plan is that of the first target.

    Raises:
        CircletError: As `circlet.compiler.compile.compile_model`, but for unsupported operators.
    """
    options = options or Options()
    model = load(path, options.limits)
    operators = _operators(model)
    tensors = tuple(_tensor_rows(model))
    weights = tuple(_weights(model))
    found = Inspection(
        model=str(path),
        format=model.source_format,
        graphs=len(model.graphs),
        macs=sum(row.macs for row in operators),
        kinds=tuple(_kinds(operators)),
        operators=operators,
        tensors=tensors,
        weights=weights,
        memory=(),
        placement=(),
    )
    try:
        planned = plan(Template.of(model, options), options)
    except UnsupportedOpsError as error:
        return replace(found, unsupported=error.entries)
    return replace(
        found, memory=tuple(_memory(planned)), placement=tuple(_placement(planned.placed))
    )


def _operators(model: Model) -> tuple[OperatorRow, ...]:
    ops = [op for graph in model.graphs for op in graph.ops]
    costs = [_cost(op) for op in ops]
    whole = sum(macs for macs, _ in costs)
    return tuple(
        OperatorRow(op.name, op.label, macs, size, _share(macs, whole))
        for op, (macs, size) in zip(ops, costs, strict=True)
    )


def _cost(op: Op) -> tuple[int, int]:
    """Multiply-accumulates and bytes by the op's record; the bytes of its operands without one."""
    record = find(op.label)
    if record is not None:
        cost = record.cost(op)
        return cost.macs, cost.bytes
    operands = (tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None)
    return 0, sum(tensor.size_bytes for tensor in operands)


def _kinds(operators: Sequence[OperatorRow]) -> Iterator[KindRow]:
    """One row per kind, the costliest first."""
    macs, sizes, counts = Counter[str](), Counter[str](), Counter[str]()
    for row in operators:
        macs[row.kind] += row.macs
        sizes[row.kind] += row.bytes
        counts[row.kind] += 1
    all_macs, all_bytes = macs.total(), sizes.total()
    for kind in sorted(counts, key=lambda kind: (-macs[kind], -sizes[kind], kind)):
        shares = _share(macs[kind], all_macs), _share(sizes[kind], all_bytes)
        yield KindRow(kind, counts[kind], macs[kind], sizes[kind], *shares)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _tensor_rows(model: Model) -> Iterator[TensorRow]:
    for number, graph in enumerate(model.graphs):
        for tensor in graph.tensors:
            facts = tensor.name, tensor.dtype.name, tensor.shape, _bytes(tensor)
            yield TensorRow(*facts, _role(tensor, graph), number)


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


def _placement(placed: Sequence[Placed]) -> Iterator[PlaceRow]:
    """Rows of the placement table with equal kind, backend and reasons, in order of first use."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in placed:
        reasons = "; ".join(f"{name}: {why}" for name, why in row.refused)
        groups.setdefault((row.op.label, row.backend, reasons), []).append(row.op.name)
    for (kind, backend, reasons), sources in groups.items():
        yield PlaceRow(kind, backend, len(sources), reasons, tuple(sources))
