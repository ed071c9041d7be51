"""Operators as networks of their own: compiled, loaded and bound through a backend's contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.artifact.values import Value
from circlet.backends.base import CompileJob, Executable, PartitionCompiler, Runner
from circlet.backends.registry import find_backend
from circlet.errors import BackendError, CircletError, PlacementError
from circlet.formats.arrays import Wanted, random_array
from circlet.ir import Graph, Op, Tensor
from circlet.ir.copy import copy_of_graph
from circlet.ops.state import initial_value
from circlet.options import Options
from circlet.placement.interface import Reason
from circlet.plan.partition import Partition, partition
from circlet.target.targets import parse_targets

BATCH = 24  # operators that are compiled together


@dataclass(frozen=True)
class Loaded:
    """Operators that are ready to run.

    Attributes:
        partition: They, with what goes in and out.
        executable: Their code.
        held_bytes: Packed weights and tables, or, where the backend does not say, the constants
            that it was given.
        scratch_bytes: What each thread of a run has besides.
    """

    partition: Partition
    executable: Executable
    held_bytes: int
    scratch_bytes: int = 0

    def bound(self, threads: int, given: Sequence[np.ndarray] = ()) -> Bound:
        """The operators between buffers of their own, filled with random data."""
        inputs = [*given] or [_filled(tensor) for tensor in self.partition.inputs]
        outputs = [_array(tensor) for tensor in self.partition.outputs]
        return Bound(self.executable.bind(inputs, outputs, threads), inputs, outputs)


@dataclass(frozen=True)
class Bound:
    """A runner and its arrays."""

    runner: Runner
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]


def unmeasurable(op: Op) -> str:
    """Why an op cannot be timed on random data, or ""."""
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if op.regions:
        return "how often its graphs run depends on the data"
    if any(None in tensor.shape or not tensor.has_rank for tensor in tensors):
        return "a shape depends on the data of a run"
    if any(not t.is_constant and t.dtype.in_arrays is None for t in tensors):
        return "an operand has no numpy type"
    return ""


def graph_of(op: Op) -> Graph:
    """A network of a copy of an op alone; constants and variables are the same objects."""
    given = [t for t in op.inputs if t is not None and not t.is_constant and not t.is_variable]
    graph = Graph(op.name, list(dict.fromkeys(given)), [*op.outputs], [op])
    graph.tensors = list(graph.used_tensors())
    return copy_of_graph(graph)


def load_all(
    graphs: Sequence[Graph], backend: str, options: Options
) -> Iterator[Loaded | CircletError]:
    """Each graph as a partition that is loaded, or why that failed.

    A batch is compiled at once; where that fails, each half of it by itself.
    """
    for first in range(0, len(graphs), BATCH):
        yield from _load_batch(graphs[first : first + BATCH], backend, options)


def _load_batch(
    graphs: Sequence[Graph], backend: str, options: Options
) -> Iterator[Loaded | CircletError]:
    try:
        yield from _loaded(graphs, backend, options)
    except CircletError as error:
        if len(graphs) == 1:
            yield error
            return
        middle = len(graphs) // 2
        for half in (graphs[:middle], graphs[middle:]):
            yield from _load_batch(half, backend, options)


def _loaded(graphs: Sequence[Graph], name: str, options: Options) -> list[Loaded]:
    backend, targets = find_backend(name), parse_targets(options.target)
    constants = {t for graph in graphs for t in graph.constants()}
    budget = options.limits.memory_budget(sum(tensor.size_bytes for tensor in constants))
    asked = options._replace(backends=(name,), backend_of=())
    compiler = backend.compiler(CompileJob(asked, targets, _names(graphs), budget=budget))
    _check_taken(compiler, graphs)
    parts = [compiler.optimize(_partition(graph, name)) for graph in graphs]
    compiled = compiler.compile(parts)
    if compiled.refused:
        why = "; ".join(dict.fromkeys(compiled.refused.values()))
        raise BackendError("a backend refused operators that it took", where=name, why=why)
    shared = compiled.shared.get(targets[0], b"")
    return [
        _with_memory(
            compiler,
            part,
            backend.load(made.codes[targets[0]], shared, options.limits),
            len(made.codes[targets[0]].constants),
        )
        for part, made in zip(parts, compiled.partitions, strict=True)
    ]


def _check_taken(compiler: PartitionCompiler, graphs: Sequence[Graph]) -> None:
    """PlacementError where a backend refuses an op, of which it must not be given any."""
    answers = ((op, compiler.supports(op)) for graph in graphs for op in graph.ops)
    refused = [(op.name, op.label, a.text) for op, a in answers if isinstance(a, Reason)]
    if refused:
        raise PlacementError.moved(compiler.name, refused)


def _with_memory(
    compiler: PartitionCompiler, part: Partition, code: Executable, stored_bytes: int
) -> Loaded:
    use = compiler.memory(part)
    if use is None:
        return Loaded(part, code, stored_bytes)
    return Loaded(part, code, use.constants_bytes, use.scratch_bytes)


def _names(graphs: Sequence[Graph]) -> dict[Tensor, str]:
    constants = dict.fromkeys(t for graph in graphs for t in graph.constants())
    return {tensor: f"constant {number}" for number, tensor in enumerate(constants)}


def _partition(graph: Graph, backend: str) -> Partition:
    (alone,) = partition(graph, dict.fromkeys(graph.ops, backend))
    return alone


def _value(tensor: Tensor) -> Value:
    dtype = tensor.dtype.in_arrays
    assert dtype is not None, tensor
    return Value(tensor.name, dtype.name, tensor.static_shape)


def _array(tensor: Tensor) -> np.ndarray:
    return _value(tensor).empty()


def _filled(tensor: Tensor) -> np.ndarray:
    array = _array(tensor)
    if tensor.is_variable:
        array[...] = initial_value(tensor)
    else:
        array[...] = random_array(Wanted(tensor.name, array.dtype.name, array.shape))
    return array
