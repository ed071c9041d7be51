"""Weights that are mostly zero are stored without their zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Graph, Sparsity, Tensor
from circlet.ops.operands import operand
from circlet.passes.contract import Contract

_TYPES = (DType.FLOAT32, DType.INT8)


@dataclass(frozen=True)
class Sparsify:
    """Store weights of FULLY_CONNECTED by their rows, with the columns of what is not zero.

    Before: `FULLY_CONNECTED(x, w)`, w dense. After: w in the storage of sparse tensors, which
    LiteRT has kernels for, and which is unpacked when Circlet compiles. Sparse tensors are for
    files alone, so it stands last in a list of passes.

    Attributes:
        tensors: Names of the weights; without any, all that get smaller.
        block: How many neighbours of a row are stored together; LiteRT's kernels know 1 and 4 for
            floats, 16 for INT8.
    """

    name = "sparsify"
    contract = Contract(packs=True)
    needs = frozenset({"FULLY_CONNECTED"})
    tensors: tuple[str, ...] = ()
    block: int = 1

    def run(self, graph: Graph) -> bool:
        """Store every matrix that is named, or that gets smaller."""
        weights = [operand(op, 1) for op in graph.ops if op.kind == "FULLY_CONNECTED"]
        others = {t for op in graph.ops for i, t in enumerate(op.inputs) if i != 1}
        stored = [
            self._store(tensor)
            for tensor in dict.fromkeys(weights)
            if tensor not in others and tensor not in graph.outputs
        ]
        return any(stored)

    def _store(self, tensor: Tensor) -> bool:
        is_named = tensor.name in self.tensors
        if tensor.data is None or tensor.sparsity is not None or tensor.dtype not in _TYPES:
            return False
        if (self.tensors and not is_named) or len(tensor.shape) != 2:
            return False
        if self.block < 1 or tensor.static_shape[1] % self.block:
            return False
        values, sparsity, size = _sparse(tensor.data, self.block)
        if size >= tensor.size_bytes and not is_named:
            return False
        values.flags.writeable = False
        tensor.data, tensor.sparsity = values, sparsity
        return True


def _sparse(dense: np.ndarray, block: int) -> tuple[np.ndarray, Sparsity, int]:
    """What is stored of a matrix as bytes, how, and the bytes that all of it takes."""
    rows, columns = dense.shape
    blocks = dense.reshape(rows, columns // block, block)
    kept = np.any(blocks, -1)
    segments = np.concatenate([[0], np.cumsum(kept.sum(1))])
    indices = kept.nonzero()[1]
    lists = [_list(segments.tolist()), _list(indices.tolist())]
    dims = [_dense(rows), {**_dense(0), "format": "SPARSE_CSR"}]
    dims[1] |= dict(
        zip(("array_segments", "array_indices"), (made for made, _ in lists), strict=True)
    )
    if block > 1:
        dims.append(_dense(block))
    order, divided = list(range(len(dims))), [1] if block > 1 else []
    values = np.ascontiguousarray(blocks[kept]).reshape(-1).view(np.uint8)
    size = values.size + sum(size for _, size in lists)
    return values, Sparsity(order, divided, dims), size


def _dense(size: int) -> dict[str, object]:
    return {"format": "DENSE", "dense_size": size, "array_segments": None, "array_indices": None}


def _list(values: Sequence[int]) -> tuple[dict[str, object], int]:
    """Numbers in the narrowest table that holds them, and its bytes."""
    most = max(values, default=0)
    for word, size in (("Uint8Vector", 1), ("Uint16Vector", 2)):
        if most < 1 << 8 * size:
            return {"table": word, "values": tuple(values)}, size * len(values)
    return {"table": "Int32Vector", "values": tuple(values)}, 4 * len(values)
