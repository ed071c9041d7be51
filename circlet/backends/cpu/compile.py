"""Compiles a partition: lowers each op, plans the arena, emits C and assembles the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

from circlet.backends.cpu import lower  # noqa: F401  (fills the table of lowerings)
from circlet.backends.cpu.abi import Jump, Operand, PlanBuilder, Space
from circlet.backends.cpu.arena import Arena, plan_arena
from circlet.backends.cpu.arrangement import COMPACT, Arrangement
from circlet.backends.cpu.constants import Constants
from circlet.backends.cpu.control import Flat, Goto, flatten
from circlet.backends.cpu.emit import EmittedKernel, emit_unit
from circlet.backends.cpu.lowered import Lowered
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Kernel,
    KernelCall,
    KernelRef,
    Lowering,
    Ref,
    StopRef,
    TensorRef,
)
from circlet.backends.cpu.observation_table import observation_table
from circlet.backends.cpu.params import params_packer
from circlet.backends.cpu.ports import bounded_ports, ports_to_bytes
from circlet.backends.cpu.reuse_index import (
    NO_REUSE,
    KernelLocation,
    ReuseIndex,
    Signatures,
    kernel_key,
)
from circlet.backends.cpu.storage import RESIDENT, Buffer, Storage
from circlet.backends.cpu.tuning.knobs import KnobSettings
from circlet.backends.cpu.updates import updates_first
from circlet.errors import PlacementError
from circlet.ir import Op, Tensor
from circlet.limits import MemoryBudget
from circlet.ops.work import work_in_place, work_of
from circlet.plan.memory import Block, MemoryPlan
from circlet.plan.partition import Partition
from circlet.target.targets import Target

_NOTHING = Operand(Space.NONE)
_UNBOUNDED = 1 << 62
_MOST_IN_UNIT = 32
_SPACES = {
    "arena": Space.ARENA,
    RESIDENT: Space.RESIDENT,
    "input": Space.INPUT,
    "output": Space.OUTPUT,
}


class RunBounds(NamedTuple):
    """What one run of a partition may do: turns of all its loops, and elementary operations."""

    turns: int
    work: int


UNBOUNDED = RunBounds(2**32 - 1, 2**74)


@dataclass(frozen=True)
class LoweredPartition:
    """What the native code of a partition consists of, before the C compiler ran.

    Attributes:
        units: C text of each unit.
        plan: The plan's bytes, as `circlet_abi.h` lays them out.
        constants: Packed weights and tables.
        memory: The arena plan.
        steps: For each step the position of its op in the partition, and the kernel's name.
        lowerings: Name of the lowering chosen for each op of the partition.
        blocks: What the arena holds, and in which steps.
        calls: The kernel call of each step, None for a jump.
        reuse: What of it serves other sizes of the network's inputs.
        values: Makes the table of where results of ops lie, for those who observe a run.
        resident: What is made once and stays beside the arena: name and bytes.
        resident_bytes: What that takes.
        once: How many of the steps, the first, run once for all runs.
        firsts: For each kernel in the units the position of the first op that needs it, sorted.
        sizes: Which ports a run fills how far, as `circlet.backends.cpu.sized` reads it.
        ports_bytes: What arrays behind such ports take.
    """

    units: tuple[str, ...]
    plan: bytes
    constants: bytes
    memory: MemoryPlan
    steps: tuple[tuple[int, str], ...]
    lowerings: tuple[str, ...]
    blocks: tuple[Block, ...] = ()
    calls: tuple[KernelCall | None, ...] = ()
    reuse: ReuseIndex = NO_REUSE
    values: Callable[[], bytes] = bytes
    firsts: tuple[int, ...] = ()
    resident: tuple[tuple[str, int], ...] = ()
    resident_bytes: int = 0
    once: int = 0
    sizes: bytes = b""
    ports_bytes: int = 0


def compile_partition(
    partition: Partition,
    target: Target,
    unit_count: int,
    bounds: RunBounds = UNBOUNDED,
    arrangement: Arrangement = COMPACT,
    *,
    names: MutableMapping[Tensor, str] | None = None,
    reuse: ReuseIndex | None = None,
    rows: Mapping[tuple[Op, Target], Lowering] | None = None,
    settings: KnobSettings | None = None,
    precision: str = "f32",
    budget: MemoryBudget | None = None,
) -> LoweredPartition:
    """Lower a partition to C and a plan that stops a run whose loops pass some bounds.

    Args:
        unit_count: Among how many units kernels are dealt out.
        names: Names of constants that are the same at every size of the network's inputs; those of
            others are added.
        reuse: What was compiled for another size; the plan counts units and constants on from it.
        rows: Lowerings that are chosen already.
        settings: What lowerings are to choose; takes down the knobs that came up.
        precision: What operands of float products may be rounded to: "f32" or "bf16".
        budget: What constants and the arena are charged to; None where nothing bounds them.

    Raises:
        PlacementError: An op has no native lowering for the target.
        LimitError: The budget has not enough left.
    """
    budget = budget or MemoryBudget(_UNBOUNDED)
    flat = flatten(partition.ops)
    known = rows or {}
    chosen = {op: known.get((op, target)) or _row(op, target) for op in flat.ops}
    constants = Constants(arrangement, Signatures({} if names is None else names), reuse, budget)
    lowered = Lowered(partition, flat, chosen, target, constants, reuse, settings, precision)
    arena = plan_arena(lowered, arrangement, budget)
    needed, locations = _needed_kernels(lowered, reuse or NO_REUSE)
    units = _emit(needed, locations, unit_count, reuse or NO_REUSE)
    sources = _positions(partition, flat)
    kept = lowered.reuse(locations, units)
    plan = _assemble(partition, lowered, arena, locations, kept, sources, bounds)
    return LoweredPartition(
        units=units,
        plan=plan,
        constants=b"" if lowered.reuses else lowered.constants,
        memory=arena.memory,
        steps=tuple((sources[step.op], _step_name(step)) for step in lowered.steps),
        lowerings=tuple(chosen[op].name if op in chosen else "jumps" for op in partition.ops),
        blocks=arena.blocks,
        resident=arena.resident,
        resident_bytes=arena.resident_bytes,
        once=lowered.once,
        calls=tuple(step if isinstance(step, KernelCall) else None for step in lowered.steps),
        reuse=kept,
        values=partial(observation_table, lowered, partial(_place, lowered.storage, arena.offsets)),
        firsts=tuple(sorted(min(sources[op] for op in ops) for ops in needed.values())),
        sizes=ports_to_bytes(partition),
        ports_bytes=sum(tensor.size_bytes for tensor in bounded_ports(partition)),
    )


def _positions(partition: Partition, flat: Flat) -> dict[Op, int]:
    """For each op that runs the position of the partition's op that it is of."""
    positions = {op: index for index, op in enumerate(partition.ops)}
    return {op: positions[owner] for op, owner in flat.owners.items()} | positions


def _place(storage: Storage, offsets: Mapping[Buffer, int], tensor: Tensor) -> Operand:
    return _operand(TensorRef(tensor), storage, offsets, {})


def _step_name(step: KernelCall | Goto) -> str:
    return step.kernel.function if isinstance(step, KernelCall) else "jump"


def _row(op: Op, target: Target) -> Lowering:
    row = LOWERINGS.choose(op, target)
    if isinstance(row, str):
        raise PlacementError(f"{op.label} has no native kernel", where=op.name, why=row)
    return row


def _kernels(call: KernelCall) -> list[tuple[Kernel, Op]]:
    """The kernels that a call needs."""
    inner = [ref.kernel for ref in call.operands if isinstance(ref, KernelRef)]
    return [(kernel, call.op) for kernel in (call.kernel, *inner)]


Needed = Mapping[Kernel, Mapping[Op, None]]


def _needed_kernels(
    lowered: Lowered, reuse: ReuseIndex
) -> tuple[Needed, dict[Kernel, KernelLocation]]:
    """The kernels that the index lacks, with the ops that need them, and where the others are."""
    locations: dict[Kernel, KernelLocation] = {}
    needed: dict[Kernel, dict[Op, None]] = {}
    precompiled = {} if lowered.reuses else lowered.precompiled
    for kernel, op in chain(chain.from_iterable(map(_kernels, lowered.calls)), precompiled.items()):
        if kernel in locations:
            continue
        known = reuse.kernels.get(kernel_key(kernel))
        if known is not None:
            locations[kernel] = known
        else:
            needed.setdefault(kernel, {})[op] = None
    return needed, locations


def _emit(
    needed: Needed, locations: dict[Kernel, KernelLocation], unit_count: int, reuse: ReuseIndex
) -> tuple[str, ...]:
    """Units of the kernels that are needed, dealt out in turn; adds their locations.

    Units of very many kernels would leave progress unknown for long, and cores idle at the end;
    many units take longer to load.
    """
    missing = sorted(needed, key=str)  # texts do not depend on the order of ops
    wanted = max(unit_count, -(-len(missing) // _MOST_IN_UNIT))
    count = max(not reuse.units, min(wanted, len(missing)))
    decks: list[list[EmittedKernel]] = [[] for _ in range(count)]
    for number, kernel in enumerate(missing):
        deck = decks[number % count]
        locations[kernel] = (reuse.units + number % count, len(deck))
        origins = dict.fromkeys(op.name for op in needed[kernel])
        deck.append(EmittedKernel(kernel, tuple(origins)))
    return tuple(emit_unit(deck) for deck in decks)


def _assemble(
    partition: Partition,
    lowered: Lowered,
    arena: Arena,
    locations: Mapping[Kernel, KernelLocation],
    kept: ReuseIndex,
    sources: Mapping[Op, int],
    bounds: RunBounds,
) -> bytes:
    builder, offsets = PlanBuilder(), arena.offsets
    shares = Counter(call.op for call in lowered.calls)
    work = {op: -(-_work(op, lowered.storage) // count) for op, count in shares.items()}
    if lowered.reuses:
        builder.add_constants(lowered.constants)
    for step in lowered.steps:
        if isinstance(step, Goto):
            condition = [_operand(r, lowered.storage, offsets, {}) for r in lowered.condition(step)]
            kind = Jump.UNLESS if condition else Jump.ALWAYS
            builder.add_jump(kind, condition, lowered.labels[step.label], sources[step.op])
            continue
        unit, index = locations[step.kernel]
        params = params_packer(step.kernel.header, step.kernel.function).bytes(step.params)
        operands = [_operand(ref, lowered.storage, offsets, locations) for ref in step.operands]
        source = sources[step.op]
        builder.add_step(unit, index, operands, params, step.tasks, source, work[step.op])
    return builder.finish(
        input_count=len(partition.read),
        output_count=len(partition.written),
        unit_count=kept.units,
        arena_bytes=arena.memory.arena_bytes,
        scratch_bytes=max((call.scratch_bytes for call in lowered.calls), default=0),
        constants_bytes=kept.constants_bytes,
        resident_bytes=arena.resident_bytes,
        once_steps=lowered.once,
        most_turns=min(bounds.turns, 2**32 - 1),
        most_work=bounds.work,
    )


def _work(op: Op, storage: Storage) -> int:
    """What an op does; one that updates an operand where it lives moves little of that."""
    source = op.inputs[0] if op.inputs else None
    if source is None or not updates_first(op) or source not in storage.allocations:
        return work_of(op)
    return work_in_place(op) if storage.shares(source, op.outputs[0]) else work_of(op)


def _operand(
    ref: Ref,
    storage: Storage,
    offsets: Mapping[Buffer, int],
    locations: Mapping[Kernel, KernelLocation],
) -> Operand:
    if isinstance(ref, TensorRef):
        buffer, layout = storage.allocations[ref.tensor]
        start = (layout.offset + ref.offset) * ref.tensor.dtype.bits // 8
        return Operand(_SPACES[buffer.space], buffer.index, offsets.get(buffer, 0) + start)
    if isinstance(ref, ConstantRef):
        return Operand(Space.PARAMS if ref.is_own else Space.CONSTANT, 0, ref.offset)
    if isinstance(ref, KernelRef):
        return Operand(Space.KERNEL, *locations[ref.kernel])
    if isinstance(ref, StopRef):
        return Operand(Space.STOP)
    return _NOTHING
