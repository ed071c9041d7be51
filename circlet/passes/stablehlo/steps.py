"""Ops that together make what one op makes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.build import default_attrs
from circlet.ops.opdef import get
from circlet.ops.operands import operand
from circlet.ops.shape import ReshapeAttrs


class Steps:
    """Collects the ops that take the place of one.

    Attributes:
        op: The op that is replaced.
        ops: What was made so far, in order.
    """

    def __init__(self, op: Op) -> None:
        self.op = op
        self.ops: list[Op] = []

    def operand(self, index: int) -> Tensor:
        """An input of the op."""
        return operand(self.op, index)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of its first result."""
        return self.op.outputs[0].static_shape

    def ints(self, values: Sequence[int], dtype: type[np.integer] = np.int32) -> Tensor:
        """A constant list of whole numbers."""
        return constant(f"{self.op.name} list", np.array(values, dtype))

    def add(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        attrs: object = None,
        dtype: DType | None = None,
    ) -> Tensor:
        """Append an op, and give its result; `dtype` is that of the result where none follows."""
        result = self.op.outputs[0]
        made = Tensor(f"{result.name} {kind.lower()}", dtype or inputs[0].dtype, ())
        options = default_attrs(kind) if attrs is None else attrs
        op = Op(kind, list(inputs), [made], options, self.op.origin)
        (found, made.shape, _), *_ = get(op).infer(op)
        made.dtype, made.quant = found, result.quant if found is result.dtype else None
        self.ops.append(op)
        return made

    def reshaped(self, source: Tensor, sizes: Sequence[int]) -> Tensor:
        """A tensor in other sizes."""
        return self.add("RESHAPE", [source], ReshapeAttrs(tuple(sizes)))

    def transposed(self, source: Tensor, order: Sequence[int]) -> Tensor:
        """A tensor's axes in another order; itself where that is the order."""
        if list(order) == sorted(order):
            return source
        return self.add("TRANSPOSE", [source, self.ints(order)])

    def finished(self) -> list[Op]:
        """The ops, the last of which makes what the op made."""
        if self.ops:
            self.ops[-1].outputs = list(self.op.outputs)
        return self.ops
