"""What a lowering is: from one op to kernel calls over laid-out tensors.

A `Lowering` is one row of the table of ways to run an operator kind natively. The compiler asks
the rows of a kind by rank whether they take an op, collects the borders that the chosen rows want
around their inputs, decides every tensor's `Layout`, and then calls `lower` for each op in order.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.layout import Border, Layout
from circlet.backends.cpu.tuning.knobs import Knob
from circlet.ir import Op, Tensor
from circlet.ops import get
from circlet.ops.requantization import is_default, rounds_to_even, rounds_twice
from circlet.target.targets import Target

T = TypeVar("T")


class Kernel(NamedTuple):
    """One specialised function of a unit.

    Attributes:
        header: File in `kernels/` that defines `function`, and `struct <function>_params`.
        function: Always-inline C function: (params, operands, scratch, begin, end, *arguments).
        arguments: C constants that specialise it, appended to the call.
        prelude: Generated C that must stand before the kernel (a fused expression), or "".
    """

    header: str
    function: str
    arguments: tuple[str | int, ...] = ()
    prelude: str = ""


class TensorRef(NamedTuple):
    """The address of a tensor's element (0, 0, 0, 0), plus `offset` elements."""

    tensor: Tensor
    offset: int = 0


class ConstantRef(NamedTuple):
    """The address of packed constant data, `offset` in bytes from the constants' start.

    `is_own` says that the data is this plan's alone, not among the constants that sizes share.
    """

    offset: int
    is_own: bool = False


@dataclass(frozen=True)
class NoRef:
    """An omitted operand: a null pointer in C."""


@dataclass(frozen=True)
class StopRef:
    """What tells a kernel of a long task that the run is to end: a `circlet_stop` in C."""


class KernelRef(NamedTuple):
    """The address of a kernel that another kernel calls."""

    kernel: Kernel


Ref = TensorRef | ConstantRef | KernelRef | StopRef | NoRef
ParamValue = int | float | npt.NDArray[np.generic] | Sequence[int] | Sequence[float]


class KernelCall(NamedTuple):
    """One step of the plan: a kernel over operands, in `tasks` independent pieces.

    `reads` and `writes` name the tensors touched, for the memory plan.
    """

    kernel: Kernel
    params: dict[str, ParamValue]
    operands: tuple[Ref, ...]
    tasks: int
    scratch_bytes: int
    writes: tuple[Tensor, ...]
    op: Op


class Packed(NamedTuple):
    """Packed constants of an op, and what was found out while they were packed.

    `fact` is plain data: numbers, strings, None, and lists and dictionaries of them.
    """

    refs: tuple[ConstantRef, ...]
    fact: Any = None


Packing = Callable[[], tuple[Sequence[np.ndarray], Any]]


def vector_bytes(target: Target) -> int:
    """Width of the vector registers that `simd.h` uses for a target."""
    if target.arch != "x86_64":
        return 16
    if target.has("avx512f"):
        return 64
    return 32 if target.has("avx2") else 16


class Context(Protocol):
    """What a lowering may ask of the compiler."""

    @property
    def target(self) -> Target:
        """What the code is for."""
        ...

    @property
    def vector_bytes(self) -> int:
        """Width of a full vector register of the target: 64, 32 or 16."""
        ...

    @property
    def precision(self) -> str:
        """What operands of float products may be rounded to: "bf16", or "f32" for not at all."""
        ...

    def layout(self, tensor: Tensor) -> Layout:
        """Where a tensor's elements sit."""
        ...

    def lasts(self, tensor: Tensor) -> bool:
        """Whether a tensor is computed once for all runs, so that much work on it pays."""
        ...

    def shares(self, source: Tensor, target: Tensor) -> bool:
        """Whether both already live in one buffer, so that copying between them is not needed."""
        ...

    def temporary(self, op: Op, size_bytes: int) -> TensorRef:
        """Memory of the arena that an op's own calls write and read, 64-byte aligned."""
        ...

    def constant(self, array: np.ndarray) -> ConstantRef:
        """Place packed data in the artifact's constants (64-byte aligned, shared by content)."""
        ...

    def stored(self, tensor: Tensor) -> ConstantRef:
        """Place the elements of a constant tensor as they are."""
        ...

    def packed(self, op: Op, name: str, pack: Packing) -> Packed:
        """Place arrays that `pack` makes of an op, or find those that serve already.

        What `pack` gives is kept for the network at other sizes of its inputs: it must follow from
        the op's constants, types, quantisation and attributes, from the target and from `name`, and
        from no size of a computed tensor.
        """
        ...

    def reused(self, op: Op, name: str) -> Packed | None:
        """What was packed for another size of the inputs under this name."""
        ...

    @property
    def reuses(self) -> bool:
        """Whether there is code of another size of the inputs."""
        ...

    def has(self, kernel: Kernel) -> bool:
        """Whether a kernel was compiled for another size of the inputs."""
        ...

    def choose(self, op: Op, knob: Knob[T]) -> T:
        """The candidate that tuning found best for an op, or the least predicted time."""
        ...

    def precompile(self, op: Op, kernel: Kernel) -> None:
        """Compile a kernel besides, for smaller sizes of the inputs."""
        ...

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
        """Append one step to the plan."""
        ...


def no_borders(op: Op) -> dict[int, Border]:
    """The border request of a lowering that wants none."""
    return {}


def always_overwrites(op: Op, source: Tensor, result: Tensor) -> bool:
    """For kernels that write an element when they have read that element of every input."""
    return True


class Rank(IntEnum):
    """In which order the rows of a kind are asked whether they take an op, the lowest first.

    Rows of different element types never take the same op; theirs are ranks only so that each row
    has a place of its own. A row that another could stand for comes before it: it is faster.
    """

    MATRIX_UNIT = 10  # tiles of AMX: 1024 products of bytes a cycle, where vectors have 128
    TRANSFORM = 20  # Winograd: a quarter of the products; it chooses the direct way where that pays
    TABLE = 30  # a look-up for each element, whatever it computes
    TABLE_16 = 31
    INT8 = 40
    HYBRID = 45  # float activations over int8 weights
    BLOCK_BITS = 50  # reads an eighth of the bytes of floats that are multiples of 4 bits
    ONE_COLUMN = 55  # a product with a vector, whose matrix is read once
    GENERAL = 60  # floats, and kernels for any type
    INT16 = 65
    ANY_TYPE = 68  # one element after the other, of types that vectors do not have
    SPLIT = 70  # several calls for one op: groups, phases of a stride
    DENSE = 75  # what needs dense operands, or sizes of its own, after what does not
    COMPUTED = 80  # operands packed as they are read: weights that are computed at run time
    COMPUTED_INT8 = 81
    COMPUTED_INT16 = 82


@dataclass(frozen=True)
class Lowering:
    """One way to run a kind of operator natively.

    Attributes:
        kind: Circle builtin name, or "CUSTOM:" and the code of a custom operator.
        name: Unique short name, e.g. "conv_f32_gemm"; shown in placement tables.
        refuses: Why this row does not take an op for a target, or None when it does.
        lower: Append the op's kernel calls to the context.
        borders: Border wanted around inputs by position; the values are zero, or the zero point.
        strided_inputs: Whether 4-D inputs may have any row and pixel stride.
        strided_any_rank: Whether inputs of other ranks may have any stride between their innermost
            runs too.
        strided_output: Whether output 0 may have any row and pixel stride (bordered, or inside a
            concatenation).
        overwrites: Whether a result may lie where an input of the same sizes and width lies; None
            where none may.
        rank: Its place among the rows of its kind.
    """

    kind: str
    name: str
    refuses: Callable[[Op, Target], str | None]
    lower: Callable[[Op, Context], None]
    borders: Callable[[Op], dict[int, Border]] = no_borders
    strided_inputs: bool = False
    strided_any_rank: bool = False
    strided_output: bool = False
    overwrites: Callable[[Op, Tensor, Tensor], bool] | None = None
    rank: Rank = Rank.GENERAL


# A task of these is a row of the result, or more; others are tiles, or ask whether to stop.
_TASKS_OF_ROWS = frozenset({"DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"})
_ROUND_TO_EVEN = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"})
_OVER_WINDOWS = _TASKS_OF_ROWS | {"CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"}
_MOST_TASK_WORK = 1 << 29


def _has_form(op: Op) -> bool:
    """Whether kernels scale sums of an op by a policy that is not LiteRT's.

    As ONNX Runtime does it only over constant weights, or by the matrix.
    """
    if op.kind == "FULLY_CONNECTED" and rounds_twice(op):
        return True
    if op.kind == "BATCH_MATMUL" and rounds_to_even(op):
        return True
    weights = op.input(1)
    constant = weights is not None and weights.is_constant
    return constant and op.kind in _ROUND_TO_EVEN and rounds_to_even(op)


def _work_of_row(op: Op) -> int:
    batch, height, *_ = op.outputs[0].static_shape
    return get(op).cost(op).computing // max(batch * height, 1)


@dataclass
class LoweringTable:
    """All rows, by kind, in the order of their ranks.

    Attributes:
        row_of_user: The row of a kind that a user registered with C of its own, or None.
    """

    rows: dict[str, list[Lowering]] = field(default_factory=dict)
    row_of_user: Callable[[str], Lowering | None] = lambda kind: None

    def add(self, lowering: Lowering) -> Lowering:
        """Put a row in its place; the order of registration means nothing.

        Raises:
            ValueError: Another row of the kind has its rank.
        """
        rows = self.rows.setdefault(lowering.kind, [])
        for row in rows:
            if row.rank == lowering.rank:
                raise ValueError(
                    f"{lowering.name} and {row.name} of {row.kind} have the rank {row.rank.name}"
                )
        insort(rows, lowering, key=lambda row: row.rank)
        return lowering

    def choose(self, op: Op, target: Target) -> Lowering | str:
        """The first row that takes an op, or why none does."""
        if not (is_default(op) or _has_form(op)):
            return f"no kernel for {op.requantization}"
        if op.kind in _OVER_WINDOWS and op.outputs[0].elements == 0:
            return "a size is 0"
        if op.kind in _TASKS_OF_ROWS and _work_of_row(op) > _MOST_TASK_WORK:
            return "a row of the image is more work than a task, which nothing stops, may be"
        reasons = []
        for row in self.rows.get(op.label) or filter(None, [self.row_of_user(op.label)]):
            reason = row.refuses(op, target)
            if reason is None:
                return row
            reasons.append(f"{row.name}: {reason}")
        return "; ".join(reasons) or "no native kernel for this kind"


LOWERINGS = LoweringTable()
