"""From a model to an artifact: passes, placement, partitions, code."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from circlet.backends.cpu.artifact import PartitionCode, TargetCode, artifact_bytes
from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.cpu.compile import CompiledPartition, compile_partition
from circlet.backends.cpu.targets import Target, parse_targets
from circlet.backends.cpu.toolchain import (
    UnitSource,
    compile_units,
    find_compiler,
    usable_cores,
)
from circlet.backends.reference import ReferenceBackend
from circlet.errors import (
    CompilerMissingError,
    FormatError,
    GraphError,
    InputError,
    LimitError,
    UnsupportedOpsError,
)
from circlet.formats import dumps, load
from circlet.ir import Graph, Model, Op, Origin, Tensor
from circlet.ir import verify as ir_verify
from circlet.ir.regions import reachable
from circlet.limits import Limits
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.state import initial_bytes, variables
from circlet.ops.verify import unsupported_ops
from circlet.passes import PassManager, make, native_pipeline, pipeline
from circlet.passes.resolve_variables import resolve_variables
from circlet.placement.interface import Backend, Reason
from circlet.placement.rule import Placed, place
from circlet.plan.partition import Partition, partition
from circlet.plan.shapes import fix_shapes
from circlet.runtime.values import Value, unique_names
from circlet.version import __version__

if TYPE_CHECKING:
    from circlet.runtime.opening import OpenOptions, Shapes, Source

LOGGER = logging.getLogger(__name__)
_RUNTIME_TEXT = '#include "circlet_runtime.c"\n'


def compile_model(source: Source, options: OpenOptions) -> bytes:
    """The artifact of a model file or of its bytes.

    Raises:
        FileError, FormatError: The source cannot be read.
        GraphError: A rule of the graph or of an operator is broken.
        UnsupportedOpsError: Ops that no backend takes, all in one report.
        PlacementError: `strict`, and an op did not go to the first backend.
        LimitError: A tensor or the arena is larger than allowed.
    """
    targets = parse_targets(options.target)
    model = load(source, options.limits)
    enter_at(model, options.signature)
    planned = plan_model(model, targets, options)
    partitions = planned.partitions
    values = _Values(planned.model.main, partitions, planned.open_sizes)
    compiled = {target: _compile(partitions, target, options.limits) for target in targets}
    metadata = _metadata(planned.model, values, partitions, planned.placed, compiled[targets[0]])
    return artifact_bytes(metadata, _target_codes(partitions, compiled))


def enter_at(model: Model, key: str) -> None:
    """Make a signature's graph the main one, its inputs and outputs named as the signature does.

    Raises:
        InputError: The model has no signature of that key; an empty key changes nothing.
    """
    if not key:
        return
    found = next((s for s in model.signatures if s.key == key), None)
    if found is None:
        raise InputError(
            "there is no such signature",
            where=key,
            fix=f"the model has {[s.key for s in model.signatures] or 'none'}",
        )
    for name, tensor in (*found.inputs.items(), *found.outputs.items()):
        tensor.name = name
    model.graphs.sort(key=lambda graph: graph is not found.graph)


@dataclass(frozen=True)
class PlannedModel:
    """A model after its passes, with the place of every op.

    `open_sizes` are the dimensions of the inputs that the file leaves open.
    """

    model: Model
    placed: list[Placed]
    partitions: list[Partition]
    open_sizes: dict[Tensor, tuple[int, ...]]


def plan_model(model: Model, targets: Sequence[Target], options: OpenOptions) -> PlannedModel:
    """Check, optimise, place and partition a model, in place; raises as `compile_model`."""
    graph = _checked_main_graph(model)
    backends = _backends(targets, options)
    graph.inputs[:] = [tensor for tensor in graph.inputs if not tensor.is_constant]
    open_sizes = {t: tuple(i for i, s in enumerate(t.shape) if s is None) for t in graph.inputs}
    _set_input_shapes(graph, options.shapes)
    fix_shapes(graph, options.limits)
    log = pipeline(options.level).run(model)
    LOGGER.info("passes applied: %s", ", ".join(dict.fromkeys(log.applied)))
    _copy_outputs(graph)
    placed = place(graph, backends, strict=options.strict)
    partitions = partition(graph, {row.op: row.backend for row in placed})
    partitions = [_fused(part, options.level) for part in partitions]
    return PlannedModel(model, placed, partitions, open_sizes)


def _checked_main_graph(model: Model) -> Graph:
    """The first graph: sound in structure, and all its operators have records."""
    if not model.graphs:
        raise GraphError("the model holds no graph", where=model.source_path)
    graphs = reachable(model.main)
    for graph in graphs:
        for violation in ir_verify.violations(graph):
            raise violation.error()
    if not model.main.outputs:
        raise GraphError("the network has no outputs", where=model.main.name)
    resolve_variables(model.main)
    model.graphs = reachable(model.main)  # Nothing checks or runs the others.
    PassManager((make("unpack-constants"),)).run(model)
    missing = [e for graph in reachable(model.main) for e in unsupported_ops(graph)]
    if missing:
        raise UnsupportedOpsError(missing, where=model.source_path)
    return model.main


def _forget_computed_sizes(graph: Graph) -> None:
    for op in (op for part in reachable(graph) for op in part.ops):
        for tensor in op.outputs:
            tensor.default_shape = tensor.static_shape
            tensor.shape = (None,) * len(tensor.shape)


def _set_input_shapes(graph: Graph, shapes: Shapes) -> None:
    """Give inputs, by name, other sizes than the file's; computed tensors follow from them."""
    if shapes:
        _forget_computed_sizes(graph)
    inputs = dict(zip(unique_names(graph.inputs), graph.inputs, strict=True))
    for name, shape in shapes:
        if name not in inputs:
            raise InputError(
                "there is no input of that name", where=name, fix=f"the names are {list(inputs)}"
            )
        tensor = inputs[name]
        if tensor.has_rank and len(shape) != len(tensor.shape):
            raise InputError(
                "an input keeps its number of dimensions",
                where=name,
                why=f"{list(shape)} were given, the file has {list(tensor.static_shape)}",
            )
        tensor.shape, tensor.default_shape = shape, None


def _backends(targets: Sequence[Target], options: OpenOptions) -> list[Backend]:
    if not options.backends:
        raise InputError("no backend is given", where="backends", fix="choose cpu or reference")
    return [_backend(name, targets, options) for name in options.backends]


def _backend(name: str, targets: Sequence[Target], options: OpenOptions) -> Backend:
    if name == "reference":
        return ReferenceBackend()
    if name != "cpu":
        raise InputError("there is no such backend", where=name, fix="choose cpu or reference")
    try:
        find_compiler()
    except CompilerMissingError as error:
        if options.strict or options.backends == ("cpu",):
            raise
        LOGGER.warning("nothing is compiled to native code: %s", error)
        return _NoCompiler()
    return CpuBackend(targets)


class _NoCompiler:
    """Stands for the cpu backend where there is no C compiler: takes nothing, and says why."""

    name = "cpu"

    def supports(self, op: Op) -> Reason:
        return Reason("there is no C compiler: pip install 'circlet[compile]'")


def _native(part: Partition) -> bool:
    return part.backend == "cpu"


def _fused(part: Partition, level: str) -> Partition:
    """A native partition after the level's passes over such; others as they are."""
    if not _native(part):
        return part
    graph = Graph("native", list(part.inputs), list(part.outputs), list(part.ops))
    native_pipeline(level).run(graph)
    return replace(part, ops=tuple(graph.ops))


def _copy_outputs(graph: Graph) -> None:
    """Have each output made by an operator of its own; inputs, constants and repeats are copied."""
    producers = graph.producers()
    made = set(producers)
    for position, tensor in enumerate(graph.outputs):
        if tensor in made:
            made.remove(tensor)
            continue
        producer = producers.get(tensor)
        origin = producer.origin if producer else Origin.of(len(graph.ops), tensor.name)
        copy = graph.add_tensor(tensor.like())
        attrs = ReshapeAttrs(tensor.static_shape)
        graph.ops.append(Op("RESHAPE", [tensor], [copy], attrs, origin))
        graph.outputs[position] = copy


class _Values:
    """Numbers for the tensors that cross partitions, and for those that outlive a run."""

    def __init__(
        self,
        graph: Graph,
        partitions: Sequence[Partition],
        open_sizes: Mapping[Tensor, tuple[int, ...]],
    ) -> None:
        self._open_sizes = open_sizes
        self.inputs = list(graph.inputs)
        self.outputs = list(graph.outputs)
        self._variables = variables(graph)
        self.tensors = [*graph.inputs, *self._variables]
        self._numbers = {tensor: index for index, tensor in enumerate(self.tensors)}
        self.partitions = [(self._read(p.inputs), self._written(p)) for p in partitions]

    def number(self, tensor: Tensor) -> int:
        return self._numbers[tensor]

    def as_json(self) -> list[dict[str, object]]:
        return [self._described(tensor).as_json() for tensor in self.tensors]

    def _described(self, tensor: Tensor) -> Value:
        value = _value(tensor)._replace(open=self._open_sizes.get(tensor, ()))
        return value if tensor not in self._variables else value.living(initial_bytes(tensor))

    def _read(self, tensors: Sequence[Tensor]) -> list[int]:
        return [self._numbers[tensor] for tensor in tensors]

    def _written(self, part: Partition) -> list[int]:
        for tensor in part.outputs:
            self._numbers[tensor] = len(self.tensors)
            self.tensors.append(tensor)
        return [self._numbers[tensor] for tensor in part.outputs]


def _value(tensor: Tensor) -> Value:
    quant = tensor.quant
    dtype = tensor.dtype.in_arrays
    if dtype is None:
        raise GraphError(
            "a tensor that crosses the network's edge has no numpy type",
            where=tensor.name,
            why=tensor.dtype.name,
        )
    return Value(
        tensor.name,
        dtype.name,
        tuple(-1 if size is None else size for size in tensor.shape),
        tuple(map(float, quant.scale)) if quant else (),
        tuple(map(int, quant.zero_point)) if quant else (),
    )


def _compile(
    partitions: Sequence[Partition], target: Target, limits: Limits
) -> list[CompiledPartition]:
    compiled = [
        compile_partition(part, target, usable_cores(), limits.loop_turns)
        for part in partitions
        if _native(part)
    ]
    largest = max((part.memory.arena_bytes for part in compiled), default=0)
    if largest > limits.arena_bytes:
        raise LimitError(
            "the network needs more working memory than allowed",
            why=f"{largest} bytes, the limit is {limits.arena_bytes}",
            fix="raise `arena_bytes` of circlet.limits.Limits if this is meant",
        )
    return compiled


def _submodel(part: Partition) -> bytes:
    inputs, outputs, ops = list(part.inputs), list(part.outputs), list(part.ops)
    graph = Graph("reference", inputs, outputs, ops)
    intermediates = (tensor for op in ops for tensor in op.intermediates)
    graph.tensors = list(dict.fromkeys([*graph.used_tensors(), *intermediates]))
    model = Model(reachable(graph))
    try:
        return dumps(model, "circle")
    except FormatError:  # Newer types and options of TFLite are unknown to Circle.
        return dumps(model, "tflite", origins=True)


def _target_codes(
    partitions: Sequence[Partition], compiled: Mapping[Target, Sequence[CompiledPartition]]
) -> list[TargetCode]:
    """Build all C of all targets side by side.

    The runtime library is built without optional features, so that sessions of different targets
    share one library and its thread pool.
    """
    plain = [UnitSource(_RUNTIME_TEXT, Target.of(target.arch)) for target in compiled]
    units = [
        UnitSource(text, target)
        for target, parts in compiled.items()
        for part in parts
        for text in part.units
    ]
    images = compile_units([*dict.fromkeys(plain), *units]) if units else []
    runtimes = dict(zip(dict.fromkeys(plain), images, strict=False))
    rest = iter(images[len(runtimes) :])
    codes = []
    for target, runtime in zip(compiled, plain, strict=True):
        native = iter(compiled[target])
        parts = tuple(
            _native_code(next(native), rest) if _native(part) else _numpy_code(part)
            for part in partitions
        )
        codes.append(TargetCode(target, runtimes.get(runtime, b""), parts, {}))
    return codes


def _native_code(compiled: CompiledPartition, images: Iterator[bytes]) -> PartitionCode:
    units = tuple(next(images) for _ in compiled.units)
    return PartitionCode(compiled.plan, compiled.constants, units)


def _numpy_code(part: Partition) -> PartitionCode:
    """A partition for numpy is a .circle model where native code has its constants."""
    return PartitionCode(b"", _submodel(part), ())


def _metadata(
    model: Model,
    values: _Values,
    partitions: Sequence[Partition],
    placed: Sequence[Placed],
    compiled: Sequence[CompiledPartition],
) -> dict[str, object]:
    native = iter(compiled)
    parts: list[dict[str, object]] = []
    for part, (inputs, outputs) in zip(partitions, values.partitions, strict=True):
        entry: dict[str, object] = {"backend": part.backend, "inputs": inputs, "outputs": outputs}
        entry["ops"] = [[op.label, op.name] for op in part.ops]
        if _native(part):
            entry |= _native_facts(next(native))
        parts.append(entry)
    return {
        "circlet": __version__,
        "description": model.description,
        "values": values.as_json(),
        "inputs": [values.inputs.index(t) for t in values.inputs],
        "outputs": [values.number(t) for t in values.outputs],
        "partitions": parts,
        "placement": [[r.op.label, r.op.name, r.backend, list(r.refused)] for r in placed],
    }


def _native_facts(compiled: CompiledPartition) -> dict[str, object]:
    memory = compiled.memory
    return {
        "lowerings": compiled.lowerings,
        "steps": compiled.steps,
        "arena_bytes": memory.arena_bytes,
        "lower_bound_bytes": memory.lower_bound_bytes,
        "planner": memory.planner,
    }
