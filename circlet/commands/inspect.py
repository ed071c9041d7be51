"""What a network costs, found without compiling or running it: `circlet inspect` as a function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from circlet.backends.cpu.compile import CompiledPartition, compile_partition
from circlet.compiler.build import plan_model
from circlet.errors import UnsupportedOp, UnsupportedOpsError
from circlet.formats import load
from circlet.ir import Graph, Model, Op, Tensor
from circlet.ops import find
from circlet.options import OpenOptions
from circlet.placement.rule import Placed
from circlet.plan.memory import Block
from circlet.plan.partition import Partition
from circlet.target.targets import Target, parse_targets


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


@dataclass(frozen=True)
class MemoryRow:
    """The arena of one native partition.

    Attributes:
        partition: Its position in the plan.
        ops: Its operators.
        arena_bytes: Size of the exact plan.
        lower_bound_bytes: What no plan can go below: the bytes alive at the peak.
        planner: Which planner made it.
        peak_op, peak_kind: The operator that runs at the peak.
        peak_tensors: What is alive then: name and bytes, largest first.
        constants_bytes: Packed weights and tables.
        rounded_ops: Operators that round their operands to bfloat16.
        scratch_bytes: What each thread of a run has besides.
        stripes: Operators that run stripe by stripe, how many stripes, and the bytes of scratch
            memory that their rows take.
    """

    partition: int
    ops: int
    arena_bytes: int
    lower_bound_bytes: int
    planner: str
    peak_op: str
    peak_kind: str
    peak_tensors: tuple[tuple[str, int], ...]
    constants_bytes: int
    rounded_ops: int = 0
    scratch_bytes: int = 0
    stripes: tuple[tuple[str, int, int], ...] = ()


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


def inspect_model(path: Path, options: OpenOptions | None = None) -> Inspection:
    """Inspect a model file; the memory plan is that of the first target.

    Raises:
        CircletError: As `circlet.compiler.build.compile_model`, but for unsupported operators.
    """
    options = options or OpenOptions()
    model = load(path, options.limits)
    targets = parse_targets(options.target)
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
        planned = plan_model(model, targets, options)
    except UnsupportedOpsError as error:
        return replace(found, unsupported=error.entries)
    memory = tuple(_memory(planned.partitions, targets[0], options.precision))
    return replace(found, memory=memory, placement=tuple(_placement(planned.placed)))


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


def _memory(partitions: Sequence[Partition], target: Target, precision: str) -> Iterator[MemoryRow]:
    for index, part in enumerate(partitions):
        if part.backend == "cpu":
            compiled = compile_partition(part, target, 1, precision=precision)
            yield _memory_row(index, part, compiled)


def _memory_row(index: int, part: Partition, compiled: CompiledPartition) -> MemoryRow:
    step, alive = _peak(compiled.blocks)
    op = part.ops[compiled.steps[step][0]] if compiled.steps else part.ops[0]
    largest = sorted(alive, key=lambda block: -block.size_bytes)
    return MemoryRow(
        partition=index,
        ops=len(part.ops),
        arena_bytes=compiled.memory.arena_bytes,
        lower_bound_bytes=compiled.memory.lower_bound_bytes,
        planner=compiled.memory.planner,
        peak_op=op.name,
        peak_kind=op.label,
        peak_tensors=tuple((block.name, block.size_bytes) for block in largest),
        constants_bytes=len(compiled.constants),
        rounded_ops=len({op for op, kernel in compiled.steps if "bf16" in kernel}),
        scratch_bytes=max((c.scratch_bytes for c in compiled.calls if c is not None), default=0),
        stripes=tuple(_stripes(compiled)),
    )


def _stripes(compiled: CompiledPartition) -> Iterator[tuple[str, int, int]]:
    for call in compiled.calls:
        if call is not None and call.kernel.function == "stripe":
            yield call.op.name, call.tasks, int(np.asarray(call.params["buffers_bytes"]))


def _peak(blocks: Iterable[Block]) -> tuple[int, list[Block]]:
    """The first step at which most bytes are alive, and what is alive then.

    A peak begins where a block is born, so only those steps are looked at.
    """
    changes: Counter[int] = Counter()
    known = list(blocks)
    for block in known:
        changes[block.first] += block.size_bytes
        changes[block.last + 1] -= block.size_bytes
    live, best, at = 0, 0, 0
    for step in sorted(changes):
        live += changes[step]
        if live > best:
            best, at = live, step
    return at, [block for block in known if block.first <= at <= block.last]


def _placement(placed: Sequence[Placed]) -> Iterator[PlaceRow]:
    """Rows of the placement table with equal kind, backend and reasons, in order of first use."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in placed:
        reasons = "; ".join(f"{name}: {why}" for name, why in row.refused)
        groups.setdefault((row.op.label, row.backend, reasons), []).append(row.op.name)
    for (kind, backend, reasons), sources in groups.items():
        yield PlaceRow(kind, backend, len(sources), reasons, tuple(sources))
