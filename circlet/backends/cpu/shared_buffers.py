"""Which tensors share a buffer, as far as those who would write over one have to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from circlet.ir import Tensor

if TYPE_CHECKING:
    from circlet.backends.cpu.storage import Buffer


class SharedBuffers:
    """For each buffer, when the tensors in it end, and how many were not changed where they are.

    Asking takes the same time however many tensors share a buffer.

    Args:
        end_of: The last step of a tensor.
    """

    def __init__(self, end_of: Callable[[Tensor], int]) -> None:
        self._end_of = end_of
        self._last: dict[Buffer, list[tuple[int, Tensor]]] = {}  # the two that end last
        self._unchanged: dict[Buffer, int] = {}
        self._changed: set[Tensor] = set()

    def add(self, tensor: Tensor, buffer: Buffer) -> None:
        """Have a tensor live in a buffer."""
        last = self._last.setdefault(buffer, [])
        last.append((self._end_of(tensor), tensor))
        last.sort(key=lambda row: -row[0])
        del last[2:]
        self._unchanged[buffer] = self._unchanged.get(buffer, 0) + 1

    def change(self, tensor: Tensor, buffer: Buffer) -> None:
        """Note that another tensor is written over one."""
        if tensor not in self._changed:
            self._changed.add(tensor)
            self._unchanged[buffer] -= 1

    def is_last_of(self, tensor: Tensor, buffer: Buffer) -> bool:
        """Whether all others in a buffer were changed."""
        return self._unchanged[buffer] == (tensor not in self._changed)

    def end_of_others(self, tensor: Tensor, buffer: Buffer) -> int:
        """The last step of all others in a buffer; -1 where there are none."""
        return next((end for end, other in self._last[buffer] if other is not tensor), -1)
