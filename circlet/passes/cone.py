"""Operators that compute one result of one tensor, and what they compute on samples of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from circlet.errors import CircletError
from circlet.ir import DType, Op, Tensor
from circlet.ops import get
from circlet.passes.rewriter import Rewriter

Reals = npt.NDArray[np.float32]
Known = TypeVar("Known")

_MOST_OUTSIDE = 4  # tensors that a cone on its way to one may read
_ONNX_ERF = "CUSTOM:onnx.Erf"
ELEMENTWISE = frozenset(
    {
        *("ADD", "SUB", "MUL", "DIV", "NEG", "ABS", "SQUARE", "POW", "MINIMUM", "MAXIMUM"),
        *("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LEAKY_RELU", "SQUARED_DIFFERENCE"),
        *("EXP", "TANH", "LOGISTIC", "SQRT", "RSQRT", _ONNX_ERF),
    }
)


@dataclass(frozen=True)
class Cone:
    """Ops in execution order; all that the last one computes depends on `source` alone."""

    ops: tuple[Op, ...]
    source: Tensor

    @property
    def result(self) -> Tensor:
        """What the last op writes."""
        return self.ops[-1].outputs[0]

    @property
    def labels(self) -> set[str]:
        """The kinds of the ops."""
        return {op.label for op in self.ops}

    @property
    def constants(self) -> list[Tensor]:
        """The constants that the ops read, each once."""
        read = (t for op in self.ops for t in op.inputs if t is not None and t.is_constant)
        return list(dict.fromkeys(read))

    @property
    def readings(self) -> int:
        """How often the ops read the source."""
        return sum(tensor is self.source for op in self.ops for tensor in op.inputs)

    def evaluate(self, samples: Reals) -> Reals | None:
        """What the ops make of other values than the source has; None where one fails."""
        values: dict[Tensor, np.ndarray | None] = {self.source: samples}
        try:
            with np.errstate(all="ignore"):
                for op in self.ops:
                    arrays = [None if t is None else values.get(t, t.data) for t in op.inputs]
                    (values[op.outputs[0]],) = get(op).evaluate(op, arrays)
        except (CircletError, ValueError):
            return None
        return values[self.result]

    def key(self, open_constants: Collection[Tensor] = ()) -> Hashable:
        """What cones have in common that compute the same, none of whose custom ops has options.

        Of open constants only sizes count, and which of them an op reads.
        """
        places: dict[Tensor, int] = {self.source: 0}
        for tensor in open_constants:
            places[tensor] = len(places)
        rows: list[Hashable] = [tuple(tensor.shape for tensor in open_constants)]
        for op in self.ops:
            read = [_place(tensor, places) for tensor in op.inputs]
            places[op.outputs[0]] = len(places)
            rows.append((op.label, None if op.kind == "CUSTOM" else op.attrs, *read))
        return tuple(rows)


def _place(tensor: Tensor | None, places: dict[Tensor, int]) -> Hashable:
    if tensor is None or tensor in places:
        return None if tensor is None else places[tensor]
    return None if tensor.data is None else (tensor.shape, tensor.data.tobytes())


def cones(last: Op, rewriter: Rewriter, kinds: Collection[str], most: int) -> Iterator[Cone]:
    """The cones of at most so many float operators of some kinds that end in an op, small first.

    Nothing outside of a cone reads what its ops compute, but for the last one's result.
    """
    if not _may_belong(last, kinds):
        return
    inside, outside = {last}, _read(last)
    while len(inside) <= most and len(outside) <= _MOST_OUTSIDE:
        if len(outside) == 1:
            ops = sorted(inside, key=rewriter.position)
            yield Cone(tuple(ops), next(iter(outside)))
        found = [op for op in map(rewriter.producer, outside) if op is not None]
        ready = [op for op in found if _may_belong(op, kinds) and _is_inner(op, inside, rewriter)]
        if not ready:
            return
        latest = max(ready, key=rewriter.position)
        inside.add(latest)
        outside = (outside - {*latest.outputs}) | _read(latest)


def apart(
    ops: Sequence[Op],
    candidates: Callable[[Op], Iterable[Cone]],
    recognise: Callable[[Cone], Known | None],
) -> list[tuple[Cone, Known]]:
    """Of the cones that are recognised, those that share no op; later and larger ones first.

    What a cone computes is looked at only where none of its ops is in one that was taken before.

    Args:
        ops: Ops in execution order, each of which may end a cone.
        candidates: Gives the cones that end in an op, small first.
        recognise: Says what a cone is, or None.
    """
    taken: set[Op] = set()
    chosen = []
    for op in reversed(ops):
        if op in taken:
            continue
        for cone in reversed([*candidates(op)]):
            known = recognise(cone) if taken.isdisjoint(cone.ops) else None
            if known is not None:
                taken.update(cone.ops)
                chosen.append((cone, known))
                break
    return chosen


def _read(op: Op) -> set[Tensor]:
    return {tensor for tensor in op.inputs if tensor is not None and not tensor.is_constant}


def _may_belong(op: Op, kinds: Collection[str]) -> bool:
    floats = all(tensor.dtype is DType.FLOAT32 for tensor in op.outputs)
    return op.label in kinds and len(op.outputs) == 1 and floats


def _is_inner(op: Op, inside: set[Op], rewriter: Rewriter) -> bool:
    """Whether only ops of the cone read what an op computes."""
    result = op.outputs[0]
    if result in rewriter.boundary or result.is_variable:
        return False
    return not rewriter.any_reader(result, lambda reader: reader not in inside)
