"""The parts of an artifact: what was planned, as metadata, and the code of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet import __version__
from circlet.artifact.file import TargetCode
from circlet.artifact.values import Value
from circlet.artifact.writer import artifact_bytes
from circlet.backends.base import Compiled, CompiledPartition
from circlet.compiler.planning import PlannedModel
from circlet.errors import GraphError
from circlet.ir import Graph, Op, Tensor
from circlet.ops.state import continued_inputs, initial_bytes, variables
from circlet.options import DEFAULT_EXECUTOR, Options
from circlet.plan.branches import work_of_ops
from circlet.plan.partition import Partition
from circlet.target.targets import Target


def artifact_of(
    planned: PlannedModel, compiled: Mapping[str, Compiled], made_of: Mapping[str, object]
) -> bytes:
    """The artifact of partitions that are compiled, by backend; `made_of` goes to its metadata."""
    parts = planned.in_order({name: own.partitions for name, own in compiled.items()})
    facts = {name: fact for own in compiled.values() for name, fact in own.facts.items()}
    metadata = {**facts, **metadata_of(planned, [part.facts for part in parts]), **made_of}
    codes = [_code_for(target, parts, compiled) for target in planned.job.targets]
    return artifact_bytes(metadata, codes)


def _code_for(
    target: Target, parts: Sequence[CompiledPartition], compiled: Mapping[str, Compiled]
) -> TargetCode:
    shared = {name: own.shared[target] for name, own in compiled.items() if target in own.shared}
    return TargetCode(str(target), tuple(part.codes[target] for part in parts), shared)


def metadata_of(planned: PlannedModel, facts: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """What loading, and a user, may ask of a plan; `facts` are those of each partition."""
    job = planned.job
    values = _Values(planned.model.main, planned.partitions, planned.open_sizes)
    parts: list[dict[str, object]] = []
    entry: dict[str, object]
    rows = zip(planned.partitions, values.partitions, facts, strict=True)
    for part, (inputs, outputs), own in rows:
        ops = [[op.label, op.name] for op in part.ops]
        entry = {"backend": part.backend, "inputs": inputs, "outputs": outputs, "ops": ops}
        if len(planned.partitions) > 1:  # what is run first, or side by side, goes by it
            entry["work"] = work_of_ops(part.ops)
        parts.append({**own, **entry})
    return {
        "circlet": __version__,
        "level": job.level,
        "precision": job.precision,
        "executor": job.options.executor or DEFAULT_EXECUTOR,
        "options": _described(job.options),
        "loop_room": planned.loop_room,
        "description": planned.model.description,
        "file_bytes": job.budget.file_bytes,
        "values": values.as_json(),
        "inputs": [values.inputs.index(t) for t in values.inputs],
        "outputs": [values.number(t) for t in values.outputs],
        "partitions": parts,
        "operators": len(planned.operators),
        "operators_of": _operators_of(planned),
        "placement": [[r.op.label, r.op.name, r.backend, list(r.refused)] for r in planned.placed],
    }


def _operators_of(planned: PlannedModel) -> dict[str, int]:
    """How many operators of the file each backend runs, in whole or in part."""
    ops: dict[str, list[Op]] = {}
    for row in planned.placed:
        ops.setdefault(row.backend, []).append(row.op)
    return {name: planned.operators_in(own) for name, own in ops.items()}


def _described(options: Options) -> dict[str, object]:
    """What a network was compiled with, as far as it shapes what is compiled."""
    known = options._asdict()
    others = ("cache", "limits", "verify", "fallback", "loop_room")
    return {name: known[name] for name in known if name not in others}


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
        self._continued = continued_inputs(graph)
        self.partitions = [(self._read(p.inputs), self._written(p)) for p in partitions]

    def number(self, tensor: Tensor) -> int:
        return self._numbers[tensor]

    def as_json(self) -> list[dict[str, object]]:
        return [self._described(tensor).as_json() for tensor in self.tensors]

    def _described(self, tensor: Tensor) -> Value:
        value = _value(tensor)._replace(open=self._open_sizes.get(tensor, ()))
        source = self._continued.get(tensor)
        if source is not None:
            value = value._replace(continues=self._numbers[source])
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
