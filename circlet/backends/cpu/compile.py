"""Compiles a partition: lowers each op, plans the arena, emits C and assembles the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import numpy as np

from circlet.backends.cpu import lower  # noqa: F401  (fills the table of lowerings)
from circlet.backends.cpu.abi import Jump, Operand, PlanBuilder, Space
from circlet.backends.cpu.arrangement import COMPACT, Arrangement
from circlet.backends.cpu.choices import Choice, Choices
from circlet.backends.cpu.constants import Constants
from circlet.backends.cpu.control import Flat, Goto, Label, flatten
from circlet.backends.cpu.emit import EmittedKernel, emit_unit
from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lower.copy import border_fill, padded_copy
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Kernel,
    KernelCall,
    KernelRef,
    Lowering,
    NoRef,
    Packed,
    Packing,
    ParamValue,
    Ref,
    TensorRef,
)
from circlet.backends.cpu.params import params_packer
from circlet.backends.cpu.stock import NO_STOCK, Place, Signatures, Stock, kernel_key
from circlet.backends.cpu.storage import RESHAPES, Buffer, Storage
from circlet.backends.cpu.targets import Target
from circlet.backends.cpu.tenants import tenants_of
from circlet.errors import PlacementError
from circlet.ir import Op, Tensor
from circlet.limits import DEFAULT_LIMITS
from circlet.plan.memory import Block, MemoryPlan
from circlet.plan.partition import Partition
from circlet.plan.validate import validate_plan, validate_tenants

T = TypeVar("T")
_SPACES = {"arena": Space.ARENA, "input": Space.INPUT, "output": Space.OUTPUT}


@dataclass(frozen=True)
class CompiledPartition:
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
        stock: What of it serves other sizes of the network's inputs.
    """

    units: tuple[str, ...]
    plan: bytes
    constants: bytes
    memory: MemoryPlan
    steps: tuple[tuple[int, str], ...]
    lowerings: tuple[str, ...]
    blocks: tuple[Block, ...] = ()
    calls: tuple[KernelCall | None, ...] = ()
    stock: Stock = NO_STOCK


def compile_partition(
    partition: Partition,
    target: Target,
    unit_count: int,
    most_turns: int = DEFAULT_LIMITS.loop_turns,
    arrangement: Arrangement = COMPACT,
    *,
    names: Mapping[Tensor, str] | None = None,
    stock: Stock | None = None,
    rows: Mapping[tuple[Op, Target], Lowering] | None = None,
    choices: Choices | None = None,
    precision: str = "f32",
) -> CompiledPartition:
    """Lower a partition to C and a plan that stops a run after so many turns of its loops.

    Args:
        unit_count: Among how many units kernels are dealt out.
        names: Names of constants that are the same at every size of the network's inputs.
        stock: What was compiled for another size; the plan counts units and constants on from it.
        rows: Lowerings that are chosen already.
        choices: What lowerings are to choose; takes down what they asked.
        precision: What operands of float products may be rounded to: "f32" or "bf16".

    Raises:
        PlacementError: An op has no native lowering for the target.
    """
    flat = flatten(partition.ops)
    known = rows or {}
    chosen = {op: known.get((op, target)) or _row(op, target) for op in flat.ops}
    constants = Constants(arrangement, Signatures(names or {}), stock)
    lowered = _Lowered(partition, flat, chosen, target, constants, stock, choices, precision)
    memory, offsets, blocks = _plan_arena(lowered, arrangement)
    units, places = _emit(lowered, unit_count, stock or NO_STOCK)
    positions = {op: index for index, op in enumerate(partition.ops)}
    sources = {op: positions[owner] for op, owner in flat.owners.items()} | positions
    kept = lowered.stock(places, units)
    plan = _assemble(partition, lowered, memory, offsets, places, kept, sources, most_turns)
    steps = tuple((sources[step.op], _step_name(step)) for step in lowered.steps)
    return CompiledPartition(
        units=units,
        plan=plan,
        constants=b"" if lowered.has_stock else lowered.constants,
        memory=memory,
        steps=steps,
        lowerings=tuple(chosen[op].name if op in chosen else "jumps" for op in partition.ops),
        blocks=blocks,
        calls=tuple(step if isinstance(step, KernelCall) else None for step in lowered.steps),
        stock=kept,
    )


def _step_name(step: KernelCall | Goto) -> str:
    return step.kernel.function if isinstance(step, KernelCall) else "jump"


def vector_bytes(target: Target) -> int:
    """Width of the vector registers that `simd.h` uses for a target."""
    if target.arch != "x86_64":
        return 16
    if target.has("avx512f"):
        return 64
    return 32 if target.has("avx2") else 16


def _row(op: Op, target: Target) -> Lowering:
    row = LOWERINGS.choose(op, target)
    if isinstance(row, str):
        raise PlacementError(f"{op.label} has no native kernel", where=op.name, why=row)
    return row


class _Lowered:
    """The `Context` that lowerings write into, and what they wrote.

    Attributes:
        ops: What is lowered, in order.
        steps: Kernel calls and jumps in order.
        labels: The step that each label stands before.
        spares: Kernels that no step calls, and the ops that they are for.
    """

    def __init__(
        self,
        partition: Partition,
        flat: Flat,
        rows: Mapping[Op, Lowering],
        target: Target,
        constants: Constants,
        stock: Stock | None,
        choices: Choices | None,
        precision: str,
    ) -> None:
        self._target, self._precision = target, precision
        self._vector_bytes = vector_bytes(target)
        self._constants, self._stock, self._choices = constants, stock, choices
        self.ops = flat.ops
        self.storage = Storage(partition, flat.ops, rows, flat.pinned)
        self.steps: list[KernelCall | Goto] = []
        self.labels: dict[Label, int] = {}
        self.spares: dict[Kernel, Op] = {}
        self._substitutes: Mapping[Tensor, Tensor] = {}
        self._copied: set[Tensor] = set()
        self._bordered: set[Buffer] = set()
        for item in flat.items:
            self._take(item, rows)

    @property
    def calls(self) -> list[KernelCall]:
        """The kernel calls alone."""
        return [step for step in self.steps if isinstance(step, KernelCall)]

    @property
    def has_stock(self) -> bool:
        """Whether units and constants of another size are used."""
        return self._stock is not None

    @property
    def target(self) -> Target:
        return self._target

    @property
    def vector_bytes(self) -> int:
        return self._vector_bytes

    @property
    def precision(self) -> str:
        return self._precision

    @property
    def constants(self) -> bytes:
        """What this plan adds to constants: all of them, where there is no stock."""
        return self._constants.data

    def stock(self, places: Mapping[Kernel, Place], units: Sequence[str]) -> Stock:
        """What the network can use at other sizes: what there was before, and what is new."""
        kernels = {kernel_key(kernel): place for kernel, place in places.items()}
        if self._stock is not None:
            known = {**self._stock.kernels, **kernels}
            return replace(self._stock, kernels=known, units=self._stock.units + len(units))
        return Stock(kernels, self._constants.entries, len(units), len(self.constants))

    def stored(self, tensor: Tensor) -> ConstantRef:
        return self._constants.stored(tensor)

    def packed(self, op: Op, name: str, pack: Packing) -> Packed:
        return self._constants.packed(op, name, pack)

    def stocked(self, op: Op, name: str) -> Packed | None:
        return self._constants.stocked(op, name)

    def has(self, kernel: Kernel) -> bool:
        return self._stock is not None and kernel_key(kernel) in self._stock.kernels

    def layout(self, tensor: Tensor) -> Layout:
        return self.storage.homes[self._substitutes.get(tensor, tensor)].layout

    def shares(self, source: Tensor, target: Tensor) -> bool:
        return source in self.storage.homes and self.storage.shares(source, target)

    def temporary(self, op: Op, size_bytes: int) -> TensorRef:
        return TensorRef(self.storage.add_temporary(f"{op.name} (temporary)", size_bytes))

    def constant(self, array: np.ndarray) -> ConstantRef:
        return self._constants.place(array)

    def choose(self, op: Op, choice: Choice[T]) -> T:
        default = choice.default(has_stock=self._stock is not None)
        return default if self._choices is None else self._choices.take(op, choice, default)

    def spare(self, op: Op, kernel: Kernel) -> None:
        self.spares.setdefault(kernel, op)

    def call(
        self,
        op: Op,
        kernel: Kernel,
        params: dict[str, ParamValue],
        operands: Sequence[Ref],
        writes: Sequence[Tensor],
        *,
        tasks: int = 1,
        scratch_bytes: int = 0,
    ) -> None:
        for tensor in writes:
            self._fill_border(op, tensor)
        seen = tuple(self._substituted(ref) for ref in operands)
        self.steps.append(KernelCall(kernel, params, seen, tasks, scratch_bytes, tuple(writes), op))

    def condition(self, goto: Goto) -> list[Ref]:
        """The address of the flag that a jump depends on, if it does."""
        if goto.unless is None:
            return []
        data = goto.unless.data
        return [TensorRef(goto.unless) if data is None else self.stored(goto.unless)]

    def loops(self) -> list[tuple[int, int]]:
        """First and last step of every loop: what a jump backwards goes over."""
        jumps = [(self.labels[s.label], i) for i, s in enumerate(self.steps) if isinstance(s, Goto)]
        return [(first, last) for first, last in jumps if first <= last]

    def _take(self, item: Op | Label | Goto, rows: Mapping[Op, Lowering]) -> None:
        if isinstance(item, Op):
            self._lower(item, rows[item])
            return
        self._copied.clear()  # what one branch copied, another may not find
        if isinstance(item, Goto):
            self.condition(item)  # places its flag, where that is a constant
            self.steps.append(item)
        else:
            self.labels[item] = len(self.steps)

    def _lower(self, op: Op, row: Lowering) -> None:
        source = op.inputs[0] if op.kind in RESHAPES else None
        if source is not None and self.shares(source, op.outputs[0]):
            return
        self._substitutes = {}
        for tensor, copy in self.storage.copies.get(op, {}).items():
            self._copy_with_border(op, tensor, copy)
        self._substitutes = self.storage.copies.get(op, {})
        row.lower(op, self)

    def _copy_with_border(self, op: Op, tensor: Tensor, copy: Tensor) -> None:
        if copy not in self._copied:
            self._copied.add(copy)
            padded_copy(op, tensor, copy, self)

    def _fill_border(self, op: Op, tensor: Tensor) -> None:
        home = self.storage.homes[tensor]
        if home.layout.border and home.buffer not in self._bordered:
            self._bordered.add(home.buffer)
            self.steps.append(border_fill(op, tensor, home.layout))

    def _substituted(self, ref: Ref) -> Ref:
        if isinstance(ref, TensorRef) and ref.tensor in self._substitutes:
            return TensorRef(self._substitutes[ref.tensor], ref.offset)
        return ref


def _plan_arena(
    lowered: _Lowered, arrangement: Arrangement
) -> tuple[MemoryPlan, dict[Buffer, int], tuple[Block, ...]]:
    touched: dict[Buffer, list[int]] = {}
    tensors = [_tensors(step) for step in lowered.steps]
    for index, seen in enumerate(tensors):
        for tensor in seen:
            touched.setdefault(lowered.storage.homes[tensor].buffer, []).append(index)
    for first, last in lowered.loops():
        for steps in touched.values():
            if steps[0] < first <= steps[-1] < last:
                steps.append(last)
    buffers = [buffer for buffer in touched if buffer.space == "arena"]
    align = arrangement.alignment
    blocks = [Block(b.name, b.size_bytes, touched[b][0], touched[b][-1], align) for b in buffers]
    memory = arrangement.plan_arena(blocks)
    validate_plan(blocks, memory)
    validate_tenants(tenants_of(lowered.ops, lowered.storage.homes, tensors))
    return memory, dict(zip(buffers, memory.offsets, strict=True)), tuple(blocks)


def _tensors(step: KernelCall | Goto) -> list[Tensor]:
    """The tensors whose memory a step touches."""
    if isinstance(step, KernelCall):
        return [ref.tensor for ref in step.operands if isinstance(ref, TensorRef)]
    return [step.unless] if step.unless is not None and not step.unless.is_constant else []


def _kernels(call: KernelCall) -> list[tuple[Kernel, Op]]:
    """The kernels that a call needs."""
    inner = [ref.kernel for ref in call.operands if isinstance(ref, KernelRef)]
    return [(kernel, call.op) for kernel in (call.kernel, *inner)]


def _emit(
    lowered: _Lowered, unit_count: int, stock: Stock
) -> tuple[tuple[str, ...], dict[Kernel, Place]]:
    """Units of distinct kernels that the stock lacks, dealt out in turn, and each one's place."""
    places: dict[Kernel, Place] = {}
    origins: dict[Kernel, dict[str, None]] = {}
    spares = {} if lowered.has_stock else lowered.spares
    for kernel, op in chain(chain.from_iterable(map(_kernels, lowered.calls)), spares.items()):
        if kernel in places:
            continue
        known = stock.kernels.get(kernel_key(kernel))
        if known is not None:
            places[kernel] = known
        else:
            origins.setdefault(kernel, {})[op.name] = None
    missing = sorted(origins, key=str)
    count = max(not stock.units, min(unit_count, len(missing)))
    decks: list[list[EmittedKernel]] = [[] for _ in range(count)]
    for number, kernel in enumerate(missing):
        deck = decks[number % count]
        places[kernel] = (stock.units + number % count, len(deck))
        deck.append(EmittedKernel(kernel, tuple(origins[kernel])))
    return tuple(emit_unit(deck) for deck in decks), places


def _assemble(
    partition: Partition,
    lowered: _Lowered,
    memory: MemoryPlan,
    offsets: Mapping[Buffer, int],
    places: Mapping[Kernel, Place],
    kept: Stock,
    sources: Mapping[Op, int],
    most_turns: int,
) -> bytes:
    builder = PlanBuilder()
    if lowered.has_stock:
        builder.add_constants(lowered.constants)
    for step in lowered.steps:
        if isinstance(step, Goto):
            condition = [_operand(r, lowered.storage, offsets, {}) for r in lowered.condition(step)]
            kind = Jump.UNLESS if condition else Jump.ALWAYS
            builder.add_jump(kind, condition, lowered.labels[step.label], sources[step.op])
            continue
        unit, index = places[step.kernel]
        params = params_packer(step.kernel.header, step.kernel.function).bytes(step.params)
        operands = [_operand(ref, lowered.storage, offsets, places) for ref in step.operands]
        builder.add_step(unit, index, operands, params, step.tasks, sources[step.op])
    return builder.finish(
        input_count=len(partition.inputs),
        output_count=len(partition.outputs),
        unit_count=kept.units,
        arena_bytes=memory.arena_bytes,
        scratch_bytes=max((call.scratch_bytes for call in lowered.calls), default=0),
        constants_bytes=kept.constants_bytes,
        most_turns=min(most_turns, 2**32 - 1),
    )


def _operand(
    ref: Ref, storage: Storage, offsets: Mapping[Buffer, int], places: Mapping[Kernel, Place]
) -> Operand:
    if isinstance(ref, NoRef):
        return Operand(Space.NONE, 0, 0)
    if isinstance(ref, ConstantRef):
        return Operand(Space.PARAMS if ref.is_own else Space.CONSTANT, 0, ref.offset)
    if isinstance(ref, KernelRef):
        return Operand(Space.KERNEL, *places[ref.kernel])
    home = storage.homes[ref.tensor]
    element = home.layout.offset + ref.offset
    offset = offsets.get(home.buffer, 0) + element * ref.tensor.dtype.bits // 8
    return Operand(_SPACES[home.buffer.space], home.buffer.index, offset)
