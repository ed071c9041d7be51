"""A partition as kernels, constants and the table of launches between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.backends.opencl import lower  # noqa: F401  (fills the table of lowerings)
from circlet.backends.opencl.device import ALIGNMENT, DeviceFacts
from circlet.backends.opencl.emission import (
    Constant,
    Emission,
    NotTakenError,
    Planned,
    PlannedOps,
    template_text,
)
from circlet.backends.opencl.lower.elementwise import (
    check_element,
    fits_together,
    is_elementwise,
    is_table,
    lower_elements,
    lower_table,
)
from circlet.backends.opencl.lowering import LOWERINGS
from circlet.backends.opencl.table import Launch, LaunchTable, Place, Result, Step
from circlet.backends.plain import why_not_plain
from circlet.errors import CircletError
from circlet.ir import DType, Op, Tensor
from circlet.limits import MemoryBudget
from circlet.ops import dtype_text
from circlet.ops.decomposition import decomposed
from circlet.plan.memory import Block, MemoryPlan, best_plan
from circlet.plan.partition import Partition


@dataclass(frozen=True)
class CompiledKernels:
    """A partition for a device.

    Attributes:
        source: OpenCL C of all its kernels.
        constants: Weights and tables, each on `ALIGNMENT` bytes.
        table: The launches.
        memory: The plan of the arena.
        blocks: What lies in the arena.
        ops: The ops that each step computes; those of the partition may be decomposed.
        owners: For each step the position in the partition of the op that it computes last.
    """

    source: str
    constants: bytes
    table: LaunchTable
    memory: MemoryPlan
    blocks: tuple[Block, ...]
    ops: tuple[tuple[Op, ...], ...]
    owners: tuple[int, ...]

    @property
    def launches(self) -> list[tuple[int, Launch]]:
        """All launches in order, each with the number of its step."""
        steps = enumerate(self.table.steps)
        return [(number, launch) for number, step in steps for launch in step.launches]


def refusal(op: Op, facts: DeviceFacts) -> str:
    """Why no kernels of a device compute an op, in a clause, or ""."""
    try:
        resolved(op, facts)
    except NotTakenError as error:
        return str(error)
    except CircletError as error:  # its record cannot compute it
        return error.what
    return ""


def resolved(op: Op, facts: DeviceFacts) -> list[Op]:
    """The op itself where a lowering takes it, else ops that it decomposes into.

    Raises:
        NotTakenError: Neither is taken.
    """
    _check_plain(op)
    try:
        _lower_alone(op, facts)
    except NotTakenError:
        parts = decomposed(op)
        if not parts:
            raise
        for part in parts:
            _check_plain(part)
            _lower_alone(part, facts)
        return parts
    return [op]


def _check_plain(op: Op) -> None:
    reason = why_not_plain(op)
    if reason is not None:
        raise NotTakenError(reason)


def _lower_alone(op: Op, facts: DeviceFacts) -> None:
    _lower(op, Emission(facts, outputs=op.outputs))


def _lower(op: Op, emission: Emission) -> None:
    if op.kind in LOWERINGS:
        LOWERINGS[op.kind](op, emission)
    elif is_table(op):
        lower_table(op, emission)
    elif is_elementwise(op):
        check_element(op, emission)
        lower_elements([op], emission, frozenset(op.outputs))
    else:
        raise NotTakenError(f"no kernel computes {op.label} of {dtype_text(op)}")


def emitted(
    ops: Sequence[Op], partition: Partition, facts: DeviceFacts, precision: str
) -> Emission:
    """The kernels and launches of the resolved ops of a partition."""
    emission = Emission(facts, precision, partition.outputs)
    for group in _groups(ops):
        if len(group) == 1 and not _joins(group[0]):
            _lower(group[0], emission)
        else:
            lower_elements(group, emission, _kept(group, ops, partition.outputs))
        emission.finish(group)
    return emission


def _joins(op: Op) -> bool:
    if any(result.dtype is DType.FLOAT16 for result in op.outputs):
        return False  # others would read it without being rounded
    return op.kind not in LOWERINGS and not is_table(op) and is_elementwise(op)


def _groups(ops: Sequence[Op]) -> Iterator[list[Op]]:
    """Ops one by one, neighbours that are element-wise over the same sizes together."""
    group: list[Op] = []
    for op in ops:
        if not _joins(op):
            yield from filter(None, [group])
            yield [op]
            group = []
            continue
        same = group and group[0].outputs[0].static_shape == op.outputs[0].static_shape
        if same and fits_together([*group, op]):
            group.append(op)
            continue
        yield from filter(None, [group])
        group = [op]
    if group:
        yield group


def _kept(group: Sequence[Op], ops: Sequence[Op], outputs: Sequence[Tensor]) -> frozenset[Tensor]:
    """The results of a group that others read."""
    inside = set(map(id, group))
    read = {tensor for op in ops if id(op) not in inside for tensor in op.inputs}
    made = {op.outputs[0] for op in group}
    return frozenset(made & (read | set(outputs))) or frozenset([group[-1].outputs[0]])


def compile_partition(
    partition: Partition, facts: DeviceFacts, budget: MemoryBudget, precision: str = "f32"
) -> CompiledKernels:
    """A partition for a device; `precision` is what operands of products may be rounded to.

    Raises:
        LimitError: Its constants take more than allowed.
    """
    owners = {
        id(part): (number, part)
        for number, op in enumerate(partition.ops)
        for part in resolved(op, facts)
    }
    emission = emitted([part for _, part in owners.values()], partition, facts, precision)
    roots = {emission.root(t) for step in emission.steps for t in _tensors(step.launches)}
    ends = {*partition.inputs, *partition.outputs}
    blocks = {t: block for t, block in _lives(emission).items() if t not in ends}
    memory = best_plan(tuple(blocks.values()))
    places = _Places(partition, dict(zip(blocks, memory.offsets, strict=True)))
    constants = _pack(emission, places, budget)
    steps = tuple(_step(step, emission, places, roots) for step in emission.steps)
    ends_count = (len(partition.inputs), len(partition.outputs))
    table = LaunchTable(steps, tuple(places.found), *ends_count, memory.arena_bytes)
    source = template_text("prelude") + "\n".join(emission.kernels.values())
    ops = tuple(step.ops for step in emission.steps)
    last = tuple(owners[id(step.ops[-1])][0] for step in emission.steps)
    return CompiledKernels(source, constants, table, memory, tuple(blocks.values()), ops, last)


def _tensors(launches: Sequence[Planned]) -> Iterator[Tensor]:
    for launch in launches:
        yield from (a for a in launch.arguments if isinstance(a, Tensor))


def _lives(emission: Emission) -> dict[Tensor, Block]:
    """For each tensor in memory the first and the last launch that names it."""
    found: dict[Tensor, Block] = {}
    number = 0
    for step in emission.steps:
        for launch in step.launches:
            for tensor in map(emission.root, _tensors([launch])):
                first = found[tensor].first if tensor in found else number
                size = -(-tensor.size_bytes // ALIGNMENT) * ALIGNMENT
                found[tensor] = Block(tensor.name, size, first, number, ALIGNMENT)
            number += 1
    return found


class _Places:
    """The buffers of a table, each once.

    Attributes:
        found: In the order of their numbers.
    """

    def __init__(self, partition: Partition, offsets: dict[Tensor, int]) -> None:
        self._ends = {t: ("in", k) for k, t in enumerate(partition.inputs)}
        self._ends |= {t: ("out", k) for k, t in enumerate(partition.outputs)}
        self._offsets = offsets
        self._constants: dict[Constant, Place] = {}
        self._numbers: dict[Place, int] = {}
        self.found: list[Place] = []

    def put(self, constant: Constant, offset: int, size_bytes: int) -> None:
        """Say where a constant lies."""
        self._constants[constant] = Place("constants", offset, size_bytes)

    def number(self, value: Tensor | Constant) -> int:
        """The number of the buffer of a tensor that names no other, or of a constant."""
        if isinstance(value, Constant):
            place = self._constants[value]
        elif value in self._ends:
            place = Place(*self._ends[value], value.size_bytes)
        else:
            place = Place("arena", self._offsets[value], value.size_bytes)
        if place not in self._numbers:
            self._numbers[place] = len(self.found)
            self.found.append(place)
        return self._numbers[place]


def _pack(emission: Emission, places: _Places, budget: MemoryBudget) -> bytes:
    """All constants one after the other."""
    packed = bytearray()
    launches = [launch for step in emission.steps for launch in step.launches]
    arguments = (a for launch in launches for a in launch.arguments)
    for constant in dict.fromkeys(a for a in arguments if isinstance(a, Constant)):
        values = np.ascontiguousarray(constant.build())
        budget.charge_packed(values.nbytes, constant.name)
        places.put(constant, len(packed), values.nbytes)
        packed += values.tobytes()
        packed += bytes(-len(packed) % ALIGNMENT)
    return bytes(packed)


def _step(step: PlannedOps, emission: Emission, places: _Places, roots: set[Tensor]) -> Step:
    launches = tuple(
        Launch(
            launch.kernel,
            tuple(
                a
                if isinstance(a, np.generic)
                else places.number(a if isinstance(a, Constant) else emission.root(a))
                for a in launch.arguments
            ),
            launch.items,
            launch.group,
        )
        for launch in step.launches
    )
    results = []
    for op in step.ops:
        for tensor in op.outputs:
            root = emission.root(tensor)
            number = places.number(root) if root in roots else -1
            results.append(_result(tensor, number))
    kind = step.ops[0].label if len(step.ops) == 1 else "FUSED_ELEMENTWISE"
    name = "+".join(dict.fromkeys(op.name for op in step.ops))
    return Step(kind, name, launches, tuple(results))


def _result(tensor: Tensor, number: int) -> Result:
    dtype, shape, quant = tensor.dtype.numpy.name, tensor.static_shape, tensor.quant
    if quant is None or not quant.is_affine:
        return Result(number, tensor.name, dtype, shape)
    scale, zero_point = tuple(quant.scale.tolist()), tuple(quant.zero_point.tolist())
    return Result(number, tensor.name, dtype, shape, scale, zero_point, quant.axis)
