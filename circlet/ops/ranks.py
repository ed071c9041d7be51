"""Results whose number of dimensions is not known, as that of an operand is not."""

from __future__ import annotations

from circlet.ir import Op
from circlet.ops.operands import ranked

# What says itself how many dimensions its result has, or what is known of it.
_OWN_RANK = frozenset({"CUSTOM", "IF", "RANK", "RESHAPE", "SHAPE", "WHILE"})


def keeps_rank(op: Op) -> bool:
    """Whether what an op's record infers holds though ranks of operands may be open."""
    return op.kind in _OWN_RANK or ranked(op)


def forget_ranks(op: Op) -> None:
    """Leave the numbers of dimensions of an op's results open."""
    for tensor in op.outputs:
        tensor.shape, tensor.has_rank = (), False
