"""What is computed or stored twice is computed and stored once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from circlet.ir import Graph, Op, RawAttrs, Tensor
from circlet.ops import is_pure
from circlet.ops.requantization import requantization_of
from circlet.passes.rewriter import Rewriter

_LEAST_BYTES = 16  # that are worth sharing


class Storage:
    """The elements of constants, each held once for all graphs of a network."""

    def __init__(self) -> None:
        self._digests: dict[tuple[int, int], bytes] = {}
        self._known: dict[bytes, np.ndarray] = {}
        self._kept: list[np.ndarray] = []  # so that no later array can have the same address

    def digest(self, data: np.ndarray) -> bytes:
        """What arrays have in common that hold the same bytes."""
        place = data.__array_interface__["data"][0], data.nbytes
        if not data.flags.c_contiguous:
            return blake2b(data.tobytes()).digest()
        if place not in self._digests:
            self._kept.append(data)
            self._digests[place] = blake2b(data.reshape(-1).view(np.uint8).data).digest()
        return self._digests[place]

    def share(self, tensor: Tensor) -> bool:
        """Have a constant use the elements of one that was seen before; whether it changed."""
        data = tensor.data
        if data is None or not data.flags.c_contiguous or data.nbytes < _LEAST_BYTES:
            return False
        known = self._known.setdefault(self.digest(data), data)
        if known.ctypes.data == data.ctypes.data:
            return False
        tensor.data = known.reshape(-1).view(np.uint8).view(data.dtype).reshape(data.shape)
        return True


@dataclass(frozen=True)
class RemoveDuplicates:
    """Compute equal operators over the same tensors once, and store equal constants once.

    Before: `TRANSPOSE(x, a) -> y`, `TRANSPOSE(x, b) -> z` where a and b hold the same. After:
    `TRANSPOSE(x, a)`, read by all that read y or z. Ops with effects stay, and what the graph
    gives out. Constants of several graphs stay apart, but share their elements, which files then
    hold once.

    Attributes:
        most_bytes: Size of the largest constants that are compared; -1 for all.
        storage: The elements that constants have had so far.
    """

    name = "remove-duplicates"
    most_bytes: int = -1
    storage: Storage = field(default_factory=Storage, compare=False)

    def run(self, graph: Graph) -> bool:
        """Join constants first, then ops in execution order, so that whole branches join."""
        rewriter = Rewriter(graph)
        constants = [tensor for tensor in graph.constants() if self._compares(tensor)]
        shared = [self.storage.share(tensor) for tensor in constants]
        _join_constants(constants, rewriter, self.storage)
        known: dict[Hashable, Op] = {}
        for op in rewriter.ops():
            key = _key(op, rewriter)
            try:
                twin = op if key is None else known.setdefault(key, op)
            except TypeError:
                continue  # attributes with arrays
            if twin is not op:
                rewriter.merge(op, twin)
        return rewriter.finish() or any(shared)

    def _compares(self, tensor: Tensor) -> bool:
        return self.most_bytes < 0 or _data(tensor).nbytes <= self.most_bytes


def _join_constants(constants: Sequence[Tensor], rewriter: Rewriter, storage: Storage) -> None:
    alike: dict[Hashable, list[Tensor]] = {}
    for tensor in constants:
        if _is_plain(tensor) and tensor not in rewriter.boundary:
            alike.setdefault(_type_of(tensor), []).append(tensor)
    for tensors in alike.values():
        first: dict[bytes, Tensor] = {}
        for tensor in tensors if len(tensors) > 1 else ():
            same = first.setdefault(storage.digest(_data(tensor)), tensor)
            if same is not tensor:
                rewriter.share(tensor, same)


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is told by its type, sizes, quantisation and elements alone."""
    quant = tensor.quant
    detailed = quant is not None and quant.details is not None
    return not (tensor.is_variable or tensor.sparsity or tensor.extra or detailed)


def _type_of(tensor: Tensor) -> Hashable:
    quant = None if tensor.quant is None else tensor.quant.text
    return tensor.dtype, tensor.shape, tensor.has_rank, quant


def _data(tensor: Tensor) -> np.ndarray:
    assert tensor.data is not None
    return tensor.data


def _key(op: Op, rewriter: Rewriter) -> Hashable | None:
    """What two ops that compute the same have in common; None for one that stays."""
    if not op.outputs or op.regions or op.intermediates or isinstance(op.attrs, RawAttrs):
        return None
    if not is_pure(op) or any(_is_seen(tensor, rewriter) for tensor in op.outputs):
        return None
    if any(tensor.is_variable for tensor in op.inputs if tensor is not None):
        return None
    types = tuple(map(_type_of, op.outputs))
    return (op.label, *op.inputs, op.attrs, requantization_of(op), types)


def _is_seen(tensor: Tensor, rewriter: Rewriter) -> bool:
    return tensor in rewriter.boundary or tensor.is_variable
