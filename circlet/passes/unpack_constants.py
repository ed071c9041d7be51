"""Store constants of packed forms in the plain form that operators read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.limits import DEFAULT_LIMITS, MemoryBudget
from circlet.ops.dense import blockwise_real, densified, unpack_int4


@dataclass(frozen=True)
class UnpackConstants:
    """Sparse constants become dense, INT4 ones INT8, and those with scales per block FLOAT32.

    Before: `FULLY_CONNECTED(x, INT4 weights)`. After: `FULLY_CONNECTED(x, INT8 weights)`. It works
    on tensors, so origins do not change; what is broken stays as it is.

    Attributes:
        budget: What the plain forms are charged to.
    """

    name = "unpack-constants"
    budget: MemoryBudget = field(
        default_factory=partial(DEFAULT_LIMITS.memory_budget, 0), compare=False
    )

    def run(self, graph: Graph) -> bool:
        """Unpack each constant that an op reads.

        Raises:
            LimitError: More memory would be needed than is allowed.
        """
        packed = [tensor for tensor in graph.constants() if _is_packed(tensor)]
        unpacked = [self._unpack(tensor, graph) for tensor in packed]
        return any(unpacked)

    def _unpack(self, tensor: Tensor, graph: Graph) -> bool:
        if tensor.sparsity is not None:
            self._charge(tensor, tensor.size_bytes)
            dense = densified(tensor)
            return dense is not None and _store(tensor, tensor.dtype, tensor.quant, dense)
        is_blockwise = tensor.quant is not None and tensor.quant.details is not None
        self._charge(tensor, tensor.elements * (4 if is_blockwise else 1))
        if is_blockwise:
            real = blockwise_real(tensor, graph.tensors)
            return real is not None and _store(tensor, DType.FLOAT32, None, real)
        stored = unpack_int4(tensor)
        return stored is not None and _store(tensor, DType.INT8, tensor.quant, stored)

    def _charge(self, tensor: Tensor, size_bytes: int) -> None:
        self.budget.charge(size_bytes, tensor.name, "its elements as operators read them")


def _is_packed(tensor: Tensor) -> bool:
    return tensor.sparsity is not None or tensor.dtype is DType.INT4


def _store(tensor: Tensor, dtype: DType, quant: Quantization | None, data: np.ndarray) -> bool:
    tensor.dtype, tensor.quant, tensor.sparsity, tensor.data = dtype, quant, None, data
    tensor.data.flags.writeable = False
    return True
