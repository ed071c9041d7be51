"""The table that `stripe.h` runs by: stripes, steps, calls, parameters of called kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from circlet.backends.cpu.abi import LINE_BYTES, align
from circlet.backends.cpu.lowering import (
    ConstantRef,
    KernelCall,
    KernelRef,
    NoRef,
    ParamValue,
    Ref,
    TensorRef,
)
from circlet.backends.cpu.params import params_packer, struct_packer
from circlet.errors import BackendError
from circlet.ir import Tensor

HEADER = "stripe.h"
SCRATCH = -1
FROM, TO, ADDED = 1, 2, 3
_NONE = -2
_CALL, _MOVE, _FILL = 0, 1, 2
_MOST_OPERANDS = 8
StepRow = dict[str, int]


@dataclass
class Table:
    """A table while it is written, and the operands that it needs.

    The first operand is the table itself.
    """

    _refs: dict[Ref, int] = field(default_factory=dict)
    _set_up: list[StepRow] = field(default_factory=list)
    _steps: list[StepRow] = field(default_factory=list)
    _stripes: list[tuple[int, ...]] = field(default_factory=list)
    _calls: list[tuple[int, Mapping[str, ParamValue]]] = field(default_factory=list)
    _params: bytearray = field(default_factory=bytearray)

    def base(self, ref: Ref) -> int:
        """The operand that is an address."""
        return self._refs.setdefault(ref, len(self._refs) + 1)

    def add_call(self, call: KernelCall, images: Mapping[Tensor, tuple[int, int]]) -> int:
        """Add a call and return its number.

        Args:
            images: For tensors that stand for rows, the base of their addresses and what of a step
                is added.
        """
        addresses = [self._address(ref, images) for ref in call.operands]
        if len(addresses) > _MOST_OPERANDS:
            raise BackendError("a part of a stripe has too many operands", where=call.op.name)
        rest = [0] * (_MOST_OPERANDS - len(addresses))
        at = align(len(self._params), LINE_BYTES)
        self._params.extend(bytes(at - len(self._params)))
        self._params += params_packer(call.kernel.header, call.kernel.function).bytes(call.params)
        fields: dict[str, ParamValue] = {
            "tasks": call.tasks,
            "bases": [base for base, _, _ in addresses] + rest,
            "shifts": [shift for _, shift, _ in addresses] + rest,
            "offsets": [offset for _, _, offset in addresses] + rest,
            "operands": len(addresses),
            "kernel": self.base(KernelRef(call.kernel)),
        }
        self._calls.append((at, fields))
        return len(self._calls) - 1

    def _address(self, ref: Ref, images: Mapping[Tensor, tuple[int, int]]) -> tuple[int, int, int]:
        """Base, shift and offset in bytes of an operand."""
        if isinstance(ref, NoRef):
            return _NONE, 0, 0
        if isinstance(ref, TensorRef):
            base, shift = images[ref.tensor]
            return base, shift, ref.offset * ref.tensor.dtype.bits // 8
        return self.base(ref), 0, 0

    def set_up(self, step: StepRow) -> None:
        """Add a step that comes before all stripes."""
        self._set_up.append(step)

    def add_stripe(
        self, afresh: Sequence[StepRow], onward: Sequence[StepRow], body: Sequence[StepRow]
    ) -> None:
        """Add a stripe behind the others."""
        cuts = [len(self._steps)]
        for steps in (afresh, onward, body):
            self._steps += steps
            cuts.append(len(self._steps))
        self._stripes.append(tuple(cuts))

    def finished(
        self, place: Callable[[np.ndarray], ConstantRef]
    ) -> tuple[dict[str, ParamValue], tuple[Ref, ...]]:
        """Place the table; the parameters of the kernel and its operands."""
        early = len(self._set_up)
        stripes = [
            {name: cut + early for name, cut in zip(_CUTS, cuts, strict=True)}
            for cuts in self._stripes
        ]
        data = bytearray(_packed("stripe_range", stripes))
        first_step = _extended(data, _packed("stripe_step", [*self._set_up, *self._steps]))
        calls = struct_packer(HEADER, "stripe_call")
        size = len(calls.bytes({})) * len(self._calls)
        first_call = align(len(data), LINE_BYTES)
        start = align(first_call + size, LINE_BYTES)
        moved = ({**fields, "params": start + at} for at, fields in self._calls)
        _extended(data, b"".join(map(calls.bytes, moved)))
        _extended(data, self._params)
        params: dict[str, ParamValue] = {
            "first_step": first_step,
            "first_call": first_call,
            "setup_steps": early,
        }
        table = place(np.frombuffer(bytes(data), np.uint8))
        return params, (table, *self._refs)


_CUTS = ("afresh", "onward", "body", "end")


def call_step(number: int, shifts: Mapping[str, int]) -> StepRow:
    """A step that runs a call; `shifts` says from, to and added."""
    return {"action": _CALL, "count": number, **shifts}


def move_step(source: int, target: int, size: int) -> StepRow:
    """A step that moves bytes of scratch down."""
    return {"action": _MOVE, "from": source, "to": target, "bytes": size}


def fill_step(target: int, size: int, pattern: int, count: int = 1, apart: int = 0) -> StepRow:
    """A step that fills runs of scratch."""
    return {
        "action": _FILL,
        "to": target,
        "bytes": size,
        "pattern": pattern,
        "count": count,
        "apart": apart,
    }


def _packed(struct: str, rows: Sequence[Mapping[str, int]]) -> bytes:
    return b"".join(map(struct_packer(HEADER, struct).bytes, rows))


def _extended(data: bytearray, more: bytes | bytearray) -> int:
    """Append bytes on a line of their own; where they start."""
    start = align(len(data), LINE_BYTES)
    data.extend(bytes(start - len(data)))
    data.extend(more)
    return start
