"""The constants of a plan: placed once by content, or found among those of another size."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

import numpy as np

from circlet.backends.cpu.arrangement import Arrangement
from circlet.backends.cpu.lowering import ConstantRef, Packed, Packing
from circlet.backends.cpu.reuse_index import ReuseIndex, Signatures
from circlet.ir import Op, Tensor
from circlet.limits import MemoryBudget


class Constants:
    """Places constants behind each other.

    Args:
        arrangement: How far apart they stand.
        signatures: Names of packed constants.
        reuse: What was packed for another size; what it lacks becomes the plan's own.
        budget: What constants are charged to.
    """

    def __init__(
        self,
        arrangement: Arrangement,
        signatures: Signatures,
        reuse: ReuseIndex | None,
        budget: MemoryBudget,
    ) -> None:
        self._arrangement = arrangement
        self._signatures = signatures
        self._reuse = reuse
        self._budget = budget
        self._data = bytearray()
        self._known: dict[bytes, ConstantRef] = {}
        self._packed: dict[str, Packed] = {}

    @property
    def data(self) -> bytes:
        """What was placed."""
        return bytes(self._data)

    @property
    def entries(self) -> dict[str, Packed]:
        """What was packed, by its name."""
        return dict(self._packed)

    def place(self, array: np.ndarray, where: str) -> ConstantRef:
        """The address of an array's bytes, for an operator; equal ones are placed once."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        key = hashlib.sha256(data.data).digest()
        if key not in self._known:
            end = len(self._data)
            start = self._arrangement.place_constant(end, data.nbytes)
            self._budget.charge_packed(start - end + data.nbytes, where)
            self._known[key] = ConstantRef(start, self._reuse is not None)
            self._data.extend(bytes(start - end))
            self._data.extend(data.data)
        return self._known[key]

    def stored(self, tensor: Tensor) -> ConstantRef:
        """The address of the elements of a constant tensor, as they are."""
        key = self._signatures.constant(tensor)
        pack = partial(_as_they_are, tensor)
        return self._found_or_packed(key, pack, tensor.name).refs[0]

    def packed(self, op: Op, name: str, pack: Packing) -> Packed:
        """What `pack` gives under a name, packed once."""
        return self._found_or_packed(self._signatures.key(op, name), pack, op.name)

    def reused(self, op: Op, name: str) -> Packed | None:
        """What was packed for another size under a name."""
        return self._found(self._signatures.key(op, name))

    def _found(self, key: str) -> Packed | None:
        return None if self._reuse is None else self._reuse.packed.get(key)

    def _found_or_packed(self, key: str, pack: Packing, where: str) -> Packed:
        known = self._found(key)
        if known is not None:
            return known
        if key not in self._packed:
            arrays, fact = pack()
            self._packed[key] = Packed(tuple(self.place(array, where) for array in arrays), fact)
        return self._packed[key]


def _as_they_are(tensor: Tensor) -> tuple[list[np.ndarray], Any]:
    return [np.asarray(tensor.data)], None
