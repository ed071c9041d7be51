"""What lowerings ask of the compiler and write into: the steps of a partition, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from circlet.backends.cpu.constants import Constants
from circlet.backends.cpu.control import Flat, Goto, Label
from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lower.copy import border_fill, padded_copy
from circlet.backends.cpu.lowering import (
    ConstantRef,
    Kernel,
    KernelCall,
    Lowering,
    Packed,
    Packing,
    ParamValue,
    Ref,
    TensorRef,
    vector_bytes,
)
from circlet.backends.cpu.once import once_first
from circlet.backends.cpu.reuse_index import KernelLocation, ReuseIndex, kernel_key
from circlet.backends.cpu.storage import Buffer, Storage
from circlet.backends.cpu.tuning.knobs import Knob, KnobSettings
from circlet.ir import Op, Tensor
from circlet.ops.lasting import lasting
from circlet.ops.operands import is_reshape
from circlet.plan.partition import Partition
from circlet.target.targets import Target

T = TypeVar("T")


class Lowered:
    """The `Context` that lowerings write into, and what they wrote.

    Attributes:
        ops: What is lowered, in order.
        steps: Kernel calls and jumps in order.
        labels: The step that each label stands before.
        once: How many of the steps, the first, run once for all runs.
        precompiled: Kernels that no step calls, and the ops that they are for.
    """

    def __init__(
        self,
        partition: Partition,
        flat: Flat,
        rows: Mapping[Op, Lowering],
        target: Target,
        constants: Constants,
        reuse: ReuseIndex | None,
        settings: KnobSettings | None,
        precision: str,
    ) -> None:
        self._target, self._precision = target, precision
        self._vector_bytes = vector_bytes(target)
        self._constants, self._reuse, self._settings = constants, reuse, settings
        self.ops = flat.ops
        self._lasting = lasting(flat.ops, flat.owners.keys())
        pinned, turned = flat.pinned, flat.updates
        self.storage = Storage(partition, flat.ops, rows, pinned, self._lasting, turned)
        self.steps: list[KernelCall | Goto] = []
        self.labels: dict[Label, int] = {}
        self.precompiled: dict[Kernel, Op] = {}
        self._substitutes: Mapping[Tensor, Tensor] = {}
        self._owner: Op | None = None  # what is lowered, whatever parts its lowering makes of it
        self._copied: set[Tensor] = set()
        self._bordered: set[Buffer] = set()
        for item in flat.items:
            self._take(item, rows)
        inside = flat.owners.keys()
        self.steps, self.labels, self.once = once_first(
            self.steps, self.labels, inside, lambda tensor: self.storage.allocations[tensor].buffer
        )

    @property
    def calls(self) -> list[KernelCall]:
        """The kernel calls alone."""
        return [step for step in self.steps if isinstance(step, KernelCall)]

    @property
    def reuses(self) -> bool:
        """Whether units and constants of another size are used."""
        return self._reuse is not None

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
        """What this plan adds to the constants: all of them, unless it reuses another size's."""
        return self._constants.data

    def reuse(self, locations: Mapping[Kernel, KernelLocation], units: Sequence[str]) -> ReuseIndex:
        """What the network can use at other sizes: what there was before, and what is new."""
        kernels = {kernel_key(kernel): place for kernel, place in locations.items()}
        if self._reuse is not None:
            known = {**self._reuse.kernels, **kernels}
            return replace(self._reuse, kernels=known, units=self._reuse.units + len(units))
        return ReuseIndex(kernels, self._constants.entries, len(units), len(self.constants))

    def stored(self, tensor: Tensor) -> ConstantRef:
        return self._constants.stored(tensor)

    def packed(self, op: Op, name: str, pack: Packing) -> Packed:
        return self._constants.packed(op, name, pack)

    def reused(self, op: Op, name: str) -> Packed | None:
        return self._constants.reused(op, name)

    def has(self, kernel: Kernel) -> bool:
        return self._reuse is not None and kernel_key(kernel) in self._reuse.kernels

    def layout(self, tensor: Tensor) -> Layout:
        return self.storage.allocations[self._substitutes.get(tensor, tensor)].layout

    def lasts(self, tensor: Tensor) -> bool:
        return tensor in self._lasting

    def shares(self, source: Tensor, target: Tensor) -> bool:
        return source in self.storage.allocations and self.storage.shares(source, target)

    def temporary(self, op: Op, size_bytes: int) -> TensorRef:
        return TensorRef(self.storage.add_temporary(f"{op.name} (temporary)", size_bytes))

    def constant(self, array: np.ndarray) -> ConstantRef:
        return self._constants.place(array, self._owner.name if self._owner else "")

    def choose(self, op: Op, knob: Knob[T]) -> T:
        default = knob.default(reuses=self._reuse is not None)
        return default if self._settings is None else self._settings.take(op, knob, default)

    def precompile(self, op: Op, kernel: Kernel) -> None:
        self.precompiled.setdefault(kernel, self._owner or op)

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
        owner = self._owner or op
        for tensor in writes:
            self._fill_border(owner, tensor)
        seen = tuple(map(self._substituted, operands) if self._substitutes else operands)
        self.steps.append(
            KernelCall(kernel, params, seen, tasks, scratch_bytes, tuple(writes), owner)
        )

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
        for done in (self._copied, self._bordered):
            done.clear()  # what one branch copied or filled, another may not find
        if isinstance(item, Goto):
            self.condition(item)  # places its flag, where that is a constant
            self.steps.append(item)
        else:
            self.labels[item] = len(self.steps)

    def _lower(self, op: Op, row: Lowering) -> None:
        source = op.inputs[0] if is_reshape(op) else None
        if source is not None and self.shares(source, op.outputs[0]):
            return
        self._substitutes, self._owner = {}, op
        for tensor, copy in self.storage.copies.get(op, {}).items():
            self._copy_with_border(op, tensor, copy)
        self._substitutes = self.storage.copies.get(op, {})
        row.lower(op, self)

    def _copy_with_border(self, op: Op, tensor: Tensor, copy: Tensor) -> None:
        if copy not in self._copied:
            self._copied.add(copy)
            padded_copy(op, tensor, copy, self)

    def _fill_border(self, op: Op, tensor: Tensor) -> None:
        allocation = self.storage.allocations[tensor]
        if allocation.layout.border and allocation.buffer not in self._bordered:
            self._bordered.add(allocation.buffer)
            self.steps.append(border_fill(op, tensor, allocation.layout))

    def _substituted(self, ref: Ref) -> Ref:
        if isinstance(ref, TensorRef) and ref.tensor in self._substitutes:
            return TensorRef(self._substitutes[ref.tensor], ref.offset)
        return ref
