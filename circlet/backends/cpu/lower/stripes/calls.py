"""Notes the kernel calls of one part of a chain over some rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lower.copy import padded_copy
from circlet.backends.cpu.lower.stripes.layers import Part, RowsOp
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Context,
    Kernel,
    KernelCall,
    Packed,
    Packing,
    ParamValue,
    Ref,
    TensorRef,
)
from circlet.backends.cpu.tuning.knobs import Knob
from circlet.errors import BackendError
from circlet.ir import Op, Tensor
from circlet.target.targets import Target

T = TypeVar("T")


class RowCalls:
    """The calls of a part; those of different numbers of rows share kernels where they can."""

    def __init__(self, part: Part, context: Context) -> None:
        self._part, self._recorder = part, _Recorder(context, part)

    def over(self, rows: RowsOp) -> list[KernelCall]:
        """The calls over some rows."""
        recorder = self._recorder
        recorder.begin(rows.layouts)
        if self._part.is_copy:
            padded_copy(rows.op, rows.source, rows.result, recorder)
            return recorder.calls
        row = LOWERINGS.choose(rows.op, recorder.target)
        if isinstance(row, str):
            raise BackendError(f"rows of {rows.op.label} have no kernel", where=rows.op.name)
        row.lower(rows.op, recorder)
        return recorder.calls


class _Recorder:
    """A `Context` for stand-ins of rows; whatever is packed belongs to the part itself."""

    def __init__(self, context: Context, part: Part) -> None:
        self._context, self._part = context, part
        self._layouts: Mapping[Tensor, Layout] = {}
        self._packed: dict[str, Packed] = {}
        self._kernels: set[Kernel] = set()
        self.calls: list[KernelCall] = []

    def begin(self, layouts: Mapping[Tensor, Layout]) -> None:
        self._layouts, self.calls = layouts, []

    @property
    def target(self) -> Target:
        return self._context.target

    @property
    def vector_bytes(self) -> int:
        return self._context.vector_bytes

    @property
    def precision(self) -> str:
        return "f32"

    @property
    def reuses(self) -> bool:
        return bool(self._kernels) or self._context.reuses

    def layout(self, tensor: Tensor) -> Layout:
        return self._layouts[tensor]

    def lasts(self, tensor: Tensor) -> bool:
        return False

    def shares(self, source: Tensor, target: Tensor) -> bool:
        return False

    def temporary(self, op: Op, size_bytes: int) -> TensorRef:
        raise BackendError("a part of a stripe needs memory of the arena", where=op.name)

    def constant(self, array: np.ndarray) -> ConstantRef:
        return self._context.constant(array)

    def stored(self, tensor: Tensor) -> ConstantRef:
        return self._context.stored(tensor)

    def packed(self, op: Op, name: str, pack: Packing) -> Packed:
        if name not in self._packed:
            self._packed[name] = self._context.packed(self._part.op, name, pack)
        return self._packed[name]

    def reused(self, op: Op, name: str) -> Packed | None:
        return self._packed.get(name) or self._context.reused(self._part.op, name)

    def has(self, kernel: Kernel) -> bool:
        return kernel in self._kernels or self._context.has(kernel)

    def choose(self, op: Op, knob: Knob[T]) -> T:
        if self._kernels:
            return knob.default(reuses=True)
        return self._context.choose(op, knob)

    def precompile(self, op: Op, kernel: Kernel) -> None:
        self._context.precompile(self._part.op, kernel)

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
        self._kernels.add(kernel)
        refs = tuple(operands)
        self.calls.append(KernelCall(kernel, params, refs, tasks, scratch_bytes, tuple(writes), op))
