"""Store constants of packed forms in the plain form that operators read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ops.dense import blockwise_real, densified, unpack_int4


@dataclass(frozen=True)
class UnpackConstants:
    """Sparse constants become dense, INT4 ones INT8, and those with scales per block FLOAT32.

    Before: `FULLY_CONNECTED(x, INT4 weights)`. After: `FULLY_CONNECTED(x, INT8 weights)`. It works
    on tensors, so origins do not change; what is broken stays as it is.
    """

    name = "unpack-constants"

    def run(self, graph: Graph) -> bool:
        """Unpack each constant that an op reads."""
        packed = [tensor for tensor in graph.constants() if _is_packed(tensor)]
        unpacked = [_unpack(tensor, graph) for tensor in packed]
        return any(unpacked)


def _is_packed(tensor: Tensor) -> bool:
    return tensor.sparsity is not None or tensor.dtype is DType.INT4


def _unpack(tensor: Tensor, graph: Graph) -> bool:
    if tensor.sparsity is not None:
        dense = densified(tensor)
        return dense is not None and _store(tensor, tensor.dtype, tensor.quant, dense)
    stored = unpack_int4(tensor)
    if stored is None:
        return False
    if tensor.quant is not None and tensor.quant.details is not None:
        real = blockwise_real(tensor, graph.tensors, stored)
        return real is not None and _store(tensor, DType.FLOAT32, None, real)
    return _store(tensor, DType.INT8, tensor.quant, stored)


def _store(tensor: Tensor, dtype: DType, quant: Quantization | None, data: np.ndarray) -> bool:
    tensor.dtype, tensor.quant, tensor.sparsity, tensor.data = dtype, quant, None, data
    tensor.data.flags.writeable = False
    return True
