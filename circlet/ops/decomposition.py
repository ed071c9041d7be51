"""Ops in the terms of others: what a record's `decompose` is made with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.build import default_attrs, infer_types
from circlet.ops.opdef import find
from circlet.ops.operands import ranked
from circlet.ops.shape import ReshapeAttrs


class Parts:
    """Collects the ops that stand for one; each has its origin.

    Attributes:
        ops: The ops so far, in order.
    """

    def __init__(self, op: Op) -> None:
        self._op = op
        self.ops: list[Op] = []

    def constant(self, values: npt.ArrayLike) -> Tensor:
        """A constant operand."""
        return constant(f"{self._op.name} (constant)", np.ascontiguousarray(values))

    def scalar(self, value: float) -> Tensor:
        """A float32 constant of one element."""
        return self.constant(np.full(1, value, np.float32))

    def make(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        attrs: object = None,
        result: Tensor | None = None,
    ) -> Tensor:
        """Append an op of one output and give that: `result`, or a new tensor."""
        return self.make_many(kind, inputs, attrs, results=[result])[0]

    def make_many(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        attrs: object = None,
        results: Sequence[Tensor | None] = (),
    ) -> list[Tensor]:
        """Append an op with an output for each of `results`, None for a new tensor.

        The kind of a custom operator is "CUSTOM:" and its code.
        """
        given = default_attrs(kind) if attrs is None else attrs
        name = f"{self._op.name} ({kind.lower()} {len(self.ops)})"
        base, _, code = kind.partition(":")
        made = [Tensor(name, DType.FLOAT32, ()) if r is None else r for r in results]
        op = Op(base, [*inputs], made, given, self._op.origin, custom_code=code)
        for tensor, result, inferred in zip(made, results, infer_types(op), strict=False):
            if result is None:
                tensor.dtype, tensor.shape = inferred.dtype, inferred.shape
        self.ops.append(op)
        return made

    def reshape(self, data: Tensor, sizes: Sequence[int], result: Tensor | None = None) -> Tensor:
        """The same elements in other sizes, one of which may be -1."""
        shape = self.constant(np.array(sizes, np.int32))
        return self.make("RESHAPE", [data, shape], ReshapeAttrs(tuple(sizes)), result)


def decomposed(op: Op) -> list[Op]:
    """The ops that express an op, none of which others express; none where no others do."""
    record = find(op.label)
    if record is None or record.decompose is None or not ranked(op):
        return []
    return [inner for part in record.decompose(op) for inner in (decomposed(part) or [part])]
