"""REFUSED: what stands in a branch that the sizes of its operands do not fit.

Exporters leave branches in files that other sizes take, such as one for another sample rate. They
are no error until a run takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from circlet.errors import CircletError, GraphError
from circlet.ir import Graph, Op, Origin, Tensor
from circlet.ops.opdef import Arrays, Effects, OpDef, TensorType, register

REFUSED = "REFUSED"
_MANY = 1 << 16


@dataclass(frozen=True)
class RefusedAttrs:
    """What was wrong, and with which operator.

    Attributes:
        reason: In a sentence.
        place: The operator's name.
    """

    reason: str
    place: str


def refusing(branch: Graph, error: CircletError) -> Graph:
    """A graph of a branch's operands and results that ends the run in which it is taken."""
    results = [tensor.like() for tensor in branch.outputs]
    reason = ": ".join(filter(None, (error.what, error.why)))
    attrs = RefusedAttrs(reason, error.where)
    op = Op(REFUSED, [*branch.inputs], results, attrs, Origin.of(0, error.where or branch.name))
    return Graph(branch.name, branch.inputs, [*results], [op])


def is_refusing(branch: Graph) -> bool:
    """Whether a graph is of `refusing`."""
    return any(op.kind == REFUSED for op in branch.ops)


def give_sizes(branch: Graph, results: Sequence[Tensor]) -> None:
    """Have a graph of `refusing` state the sizes of what another branch gives."""
    for own, other in zip(branch.outputs, results, strict=True):
        own.shape, own.has_rank, own.default_shape = other.shape, other.has_rank, None


def _evaluate(op: Op, arrays: Arrays) -> NoReturn:
    del arrays
    assert isinstance(op.attrs, RefusedAttrs)
    raise GraphError(
        "a branch was taken that the sizes of its operands do not fit",
        where=op.attrs.place,
        why=op.attrs.reason,
        fix="give the network's inputs other sizes, or have it take another branch",
    )


def _declared(op: Op) -> list[TensorType]:
    return [TensorType(tensor.dtype, tensor.shape, tensor.has_rank) for tensor in op.outputs]


register(
    OpDef(
        REFUSED,
        infer=_declared,
        evaluate=_evaluate,
        attrs=RefusedAttrs,
        arity=(0, _MANY),
        dtypes=("* -> *",),
        outputs=None,
        effects=Effects.UNKNOWN,
        fused=True,
    )
)
