"""Groups of channels of 8-bit convolutions: which are one product, and how they are packed.

Groups of few filters leave lanes of a register idle. Some of them together are a group of more
channels and filters, whose weights are those of its members, and zeros between them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from circlet.ir import Op
from circlet.ops.operands import operand

Bytes = TypeVar("Bytes", np.int8, np.int16)


class Groups(NamedTuple):
    """Groups of channels of a convolution as a product has them.

    Attributes:
        total: Groups.
        members: Groups of the operator that each is made of.
        depth: Channels of a member.
    """

    total: int
    members: int
    depth: int

    @classmethod
    def of(cls, op: Op, lanes: int) -> Groups:
        """Those of a CONV_2D, given the lanes of a register."""
        filters, depth = operand(op, 1).static_shape[0], operand(op, 1).static_shape[3]
        groups = group_count(op)
        members = groups_together(groups, filters // groups, lanes)
        return cls(groups // members, members, depth)

    @property
    def channels(self) -> int:
        """Input channels of a group."""
        return self.members * self.depth

    def joined(self, weights: npt.NDArray[Bytes], zero: int) -> npt.NDArray[Bytes]:
        """Weights of all groups over the channels of theirs: those of other members count as 0."""
        if self.members == 1:
            return weights
        filters, rows, columns, depth = weights.shape
        dense = np.full((filters, rows, columns, self.members, depth), zero, weights.dtype)
        member = np.arange(filters) * self.total * self.members // filters % self.members
        dense[np.arange(filters), :, :, member] = weights
        return dense.reshape(filters, rows, columns, self.channels)


def group_count(op: Op) -> int:
    """Groups of channels of a CONV_2D."""
    return operand(op, 0).static_shape[3] // operand(op, 1).static_shape[3]


def groups_together(groups: int, filters: int, lanes: int) -> int:
    """Groups of one product: the least work, zeros included; then the fewest products.

    Args:
        filters: Of a group.
    """

    def work(count: int) -> tuple[int, int]:
        return groups // count * -(-count * filters // lanes) * count, -count

    return min((n for n in range(1, groups + 1) if groups % n == 0), key=work)


def whole_blocks(weights: npt.NDArray[Bytes], groups: int, columns: int) -> npt.NDArray[Bytes]:
    """Weights with zeros behind those of each group, which is whole blocks of columns then."""
    filters = len(weights) // groups
    shape = groups, -(-filters // columns) * columns, *weights.shape[1:]
    blocks = np.zeros(shape, weights.dtype)
    blocks[:, :filters] = weights.reshape(groups, filters, *weights.shape[1:])
    return blocks.reshape(-1, *weights.shape[1:])
