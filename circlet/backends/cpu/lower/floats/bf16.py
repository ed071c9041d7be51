"""Operands rounded to bfloat16: what the float lowerings do where the precision is `bf16`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.floats.tiles import Registers
from circlet.backends.cpu.lowering import Context, Kernel, Ref, TensorRef
from circlet.ir import Op
from circlet.target.targets import Target

BF16_BYTES = 2
_STEP_CYCLES = 1000  # what one more step of the plan costs
_CASTS, _GAINS = 8, 32  # elements rounded, and multiply-adds saved, in a cycle
_TASK_ELEMENTS = 1 << 14
_SMALLEST = np.float32(2.0**-126)

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]


def has_bf16(target: Target) -> bool:
    """Whether the target has instructions for products of bfloat16."""
    return target.has("avx512bf16") or (target.arch == "aarch64" and target.has("bf16"))


def rounds(context: Context, multiply_adds: int, elements: int) -> bool:
    """Whether a product is to take rounded operands, and gains more than rounding them costs."""
    gain = multiply_adds / _GAINS - elements / _CASTS
    return context.precision == "bf16" and gain > _STEP_CYCLES


def speed_up(context: Context) -> float:
    """How much less time products over rounded operands take, where there are instructions."""
    if context.precision != "bf16":
        return 1.0
    return 8.0 if context.target.has("amx_bf16") else 2.0


def call_cast(op: Op, context: Context, source: Ref, count: int) -> TensorRef:
    """Append the call that rounds `count` elements of an operand, and tell where they are then."""
    rounded = context.temporary(op, count * BF16_BYTES)
    context.call(
        op,
        Kernel("cast_bf16.h", "cast_bf16"),
        {"count": count, "task_count": _TASK_ELEMENTS},
        (source, rounded),
        [rounded.tensor],
        tasks=-(-count // _TASK_ELEMENTS),
    )
    return rounded


def registers_for_pairs(registers: Registers) -> Registers:
    """The registers as kernels over bfloat16 use them: whole vectors, inputs one by one."""
    return Registers(registers.count, broadcasts=registers.broadcasts)


def to_bf16(values: Floats) -> npt.NDArray[np.uint16]:
    """The nearest bfloat16, as its bits: halves to even, what is below 2^-126 to zero."""
    small = np.abs(values) < _SMALLEST
    bits = np.where(small, np.copysign(np.float32(0), values), values).view(np.uint32)
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    kept = np.where(np.isnan(values), bits >> 16 | 0x40, nearest)
    return kept.astype(np.uint16)


def pairs(rows: Floats) -> Words:
    """Neighbours of each row in one word, the first in its lower half; zero joins an odd last."""
    bits = to_bf16(np.pad(rows, ((0, 0), (0, rows.shape[1] % 2)))).astype(np.uint32)
    return bits[:, 0::2] | bits[:, 1::2] << np.uint32(16)
