"""The parts of an artifact: a planned model's metadata and the code of its partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from circlet import __version__
from circlet.artifact.file import PartitionCode, TargetCode
from circlet.artifact.values import Value
from circlet.artifact.writer import artifact_bytes
from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.cpu.compile import CompiledPartition, compile_partition
from circlet.backends.cpu.lower.floats.bf16 import has_bf16
from circlet.backends.cpu.reuse_index import ReuseIndex
from circlet.backends.cpu.runtime_library import plain_target, runtime_image
from circlet.backends.cpu.toolchain import (
    UnitSource,
    compile_units,
    find_compiler,
)
from circlet.backends.cpu.tuning.choices import Choices
from circlet.backends.reference.backend import ReferenceBackend
from circlet.compiler.planning import PlannedModel, is_native, plan
from circlet.compiler.template import Template, check
from circlet.errors import (
    CompilerMissingError,
    FormatError,
    GraphError,
    InputError,
    LimitError,
)
from circlet.formats import dumps
from circlet.ir import Graph, Model, Op, Tensor
from circlet.ir.regions import reachable
from circlet.ops.state import initial_bytes, variables
from circlet.placement.interface import Backend, Reason
from circlet.plan.partition import Partition
from circlet.target.targets import Target
from circlet.target.threads import usable_cores

if TYPE_CHECKING:
    from circlet.options import OpenOptions

LOGGER = logging.getLogger(__name__)
Builder = Callable[[Sequence[UnitSource]], list[bytes]]
NO_FACTS: Mapping[str, object] = {}
PRECISIONS = ("f32", "bf16")


def artifact_of(
    planned: PlannedModel,
    compiled: Mapping[Target, Sequence[CompiledPartition]],
    facts: Mapping[str, object] = NO_FACTS,
    build: Builder | None = None,
) -> bytes:
    """The artifact of native partitions that are lowered for each target.

    Args:
        facts: Further metadata.
        build: Makes shared objects of C; `compile_units` by default.
    """
    metadata = {**metadata_of(planned, next(iter(compiled.values()))), **facts}
    codes = _target_codes(planned.partitions, compiled, build or compile_units)
    return artifact_bytes(metadata, codes)


def plan_model(model: Model, targets: Sequence[Target], options: OpenOptions) -> PlannedModel:
    """Check, optimise, place and partition a model, in place; raises as `compile_model`."""
    check(model)
    return plan(model, backends_of(targets, options), options)


def compile_native(
    part: Partition,
    target: Target,
    options: OpenOptions,
    template: Template,
    planned: PlannedModel,
    reuse: ReuseIndex | None = None,
    choices: Choices | None = None,
) -> CompiledPartition:
    """Lower a native partition, reusing what the index lists; LimitError for too big an arena."""
    turns, names = options.limits.loop_turns, template.names
    rows = next((b.rows for b in planned.backends if isinstance(b, CpuBackend)), None)
    compiled = compile_partition(
        part,
        target,
        usable_cores(),
        turns,
        names=names,
        reuse=reuse,
        rows=rows,
        choices=choices,
        precision=options.precision,
    )
    needed, allowed = compiled.memory.arena_bytes, options.limits.arena_bytes
    if needed > allowed:
        raise LimitError(
            "the network needs more working memory than allowed",
            why=f"{needed} bytes, the limit is {allowed}",
            fix="raise `arena_bytes` of circlet.limits.Limits if this is meant",
        )
    return compiled


def backends_of(
    targets: Sequence[Target], options: OpenOptions, *, compiles: bool = True
) -> list[Backend]:
    """The backends that were asked for, in order; InputError for an unknown one.

    `compiles` says that a C compiler is needed; where there is none, numpy runs all.
    """
    if not options.backends:
        raise InputError("no backend is given", where="backends", fix="choose cpu or reference")
    if options.precision not in PRECISIONS:
        fix = f"choose {' or '.join(PRECISIONS)}"
        raise InputError("there is no such precision", where=options.precision, fix=fix)
    if compiles and options.precision == "bf16":
        _warn_of_emulation(targets)
    return [_backend(name, targets, options, compiles) for name in options.backends]


def _warn_of_emulation(targets: Sequence[Target]) -> None:
    lacking = [str(target) for target in targets if not has_bf16(target)]
    if lacking:
        names = ", ".join(lacking)
        LOGGER.warning("no instructions for bf16, which may take longer than f32: %s", names)


def _backend(name: str, targets: Sequence[Target], options: OpenOptions, compiles: bool) -> Backend:
    if name == "reference":
        return ReferenceBackend()
    if name != "cpu":
        raise InputError("there is no such backend", where=name, fix="choose cpu or reference")
    if not compiles:
        return CpuBackend(targets)
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
    partitions: Sequence[Partition],
    compiled: Mapping[Target, Sequence[CompiledPartition]],
    build: Builder,
) -> list[TargetCode]:
    """Build all C of all targets side by side."""
    units = [
        UnitSource(text, target)
        for target, parts in compiled.items()
        for part in parts
        for text in part.units
    ]
    plain = dict.fromkeys(plain_target(target) for target in compiled) if units else {}
    with ThreadPoolExecutor() as pool:
        found = pool.map(runtime_image, plain)
        rest = iter(build(units) if units else [])
        runtimes = dict(zip(plain, found, strict=True))
    codes = []
    for target in compiled:
        native = iter(compiled[target])
        parts = tuple(
            _native_code(next(native), rest) if is_native(part) else numpy_code(part)
            for part in partitions
        )
        codes.append(TargetCode(str(target), runtimes.get(plain_target(target), b""), parts, {}))
    return codes


def _native_code(compiled: CompiledPartition, images: Iterator[bytes]) -> PartitionCode:
    units = tuple(next(images) for _ in compiled.units)
    reuse = compiled.reuse.to_bytes()
    return PartitionCode(compiled.plan, compiled.constants, units, reuse)


def numpy_code(part: Partition) -> PartitionCode:
    """A partition for numpy is a .circle model where native code has its constants."""
    return PartitionCode(b"", _submodel(part), ())


def metadata_of(planned: PlannedModel, compiled: Sequence[CompiledPartition]) -> dict[str, object]:
    """What loading, and a user, may ask of a plan; `compiled` are its native partitions."""
    values = _Values(planned.model.main, planned.partitions, planned.open_sizes)
    native = iter(compiled)
    parts: list[dict[str, object]] = []
    for part, (inputs, outputs) in zip(planned.partitions, values.partitions, strict=True):
        entry: dict[str, object] = {"backend": part.backend, "inputs": inputs, "outputs": outputs}
        entry["ops"] = [[op.label, op.name] for op in part.ops]
        if is_native(part):
            entry |= _native_facts(next(native))
        parts.append(entry)
    return {
        "circlet": __version__,
        "level": planned.level,
        "precision": planned.precision,
        "description": planned.model.description,
        "values": values.as_json(),
        "inputs": [values.inputs.index(t) for t in values.inputs],
        "outputs": [values.number(t) for t in values.outputs],
        "partitions": parts,
        "placement": [[r.op.label, r.op.name, r.backend, list(r.refused)] for r in planned.placed],
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
