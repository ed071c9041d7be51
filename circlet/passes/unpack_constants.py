"""Store constants of packed forms in the plain form that operators read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Graph, Op, Quantization, Tensor
from circlet.limits import DEFAULT_LIMITS, MemoryBudget
from circlet.ops import get
from circlet.ops.dense import blockwise_real, densified, densifying_bytes, unpack_int4
from circlet.ops.micro_decode import MICRO_DECODE
from circlet.ops.verify import op_violations
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter

_PLACES_BYTES = (
    16  # an element's place in a table, its bits one by one, and as a number to index with
)


@dataclass(frozen=True)
class UnpackConstants:
    """Sparse constants become dense, INT4 ones INT8, and those with scales per block FLOAT32.

    Before: `FULLY_CONNECTED(x, INT4 weights)`. After: `FULLY_CONNECTED(x, INT8 weights)`. Before:
    `CONV_2D(x, DENSIFY(sparse weights))`, or TFLM_DECODE instead. After: `CONV_2D(x, weights)`.
    What is broken stays as it is.

    Attributes:
        budget: What the plain forms are charged to.
    """

    name = "unpack-constants"
    contract = Contract(
        native_only="files are smaller with constants of packed forms",
        grows={"bytes_moved": "plain forms are larger"},
    )
    budget: MemoryBudget = field(
        default_factory=partial(DEFAULT_LIMITS.memory_budget, 0), compare=False
    )

    def run(self, graph: Graph) -> bool:
        """Unpack each constant that an op reads.

        Raises:
            LimitError: More memory would be needed than is allowed.
        """
        packed = [tensor for tensor in graph.constants() if _is_packed(tensor)]
        unpacked = [self._unpack(tensor) for tensor in packed]
        return any([*unpacked, self._give_to_readers(graph)])

    def _unpack(self, tensor: Tensor) -> bool:
        if tensor.sparsity is not None:
            working = densifying_bytes(tensor)
            self._charge(tensor, tensor.size_bytes + working)
            dense = densified(tensor)
            self.budget.release(working)
            return dense is not None and _store(tensor, tensor.dtype, tensor.quant, dense)
        is_blockwise = tensor.quant is not None and tensor.quant.details is not None
        self._charge(tensor, tensor.elements * (4 if is_blockwise else 1))
        if is_blockwise:
            real = blockwise_real(tensor)
            return real is not None and _store(tensor, DType.FLOAT32, None, real)
        stored = unpack_int4(tensor)
        return stored is not None and _store(tensor, DType.INT8, tensor.quant, stored)

    def _give_to_readers(self, graph: Graph) -> bool:
        """Put constants in the place of the ops that make them of other forms."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "DENSIFY" and _is_done(op, rewriter):
                source = op.inputs[0]
                assert source is not None and source.data is not None
                rewriter.fold(op, {op.outputs[0]: source.data})
            elif op.label == f"CUSTOM:{MICRO_DECODE}" and _may_be_done(op, rewriter):
                self._decode(op, rewriter)
        return rewriter.finish()

    def _decode(self, op: Op, rewriter: Rewriter) -> None:
        for tensor in op.outputs:
            self._charge(tensor, 2 * tensor.size_bytes + _PLACES_BYTES * tensor.elements)
        try:
            values = get(op).evaluate(
                op, [None if tensor is None else tensor.data for tensor in op.inputs]
            )
        except GraphError:
            return
        finally:
            for tensor in op.outputs:
                self.budget.release(tensor.size_bytes + _PLACES_BYTES * tensor.elements)
        rewriter.fold(op, dict(zip(op.outputs, values, strict=True)))

    def _charge(self, tensor: Tensor, size_bytes: int) -> None:
        self.budget.charge(size_bytes, tensor.name, "its elements as operators read them")


def _is_done(op: Op, rewriter: Rewriter) -> bool:
    """Whether an op's output may become the constant that it reads."""
    if not _may_be_done(op, rewriter):
        return False
    source, (result,) = op.inputs[0], op.outputs
    if source is None or source.sparsity is not None:
        return False
    return result.dtype is source.dtype and result.shape == source.static_shape


def _may_be_done(op: Op, rewriter: Rewriter) -> bool:
    """Whether an op breaks no rule, and its outputs may become constants."""
    if next(op_violations(op, rewriter.graph), None) is not None:
        return False
    return not any(t in rewriter.boundary or t.is_variable for t in op.outputs)


def _is_packed(tensor: Tensor) -> bool:
    return tensor.sparsity is not None or tensor.dtype is DType.INT4


def _store(tensor: Tensor, dtype: DType, quant: Quantization | None, data: np.ndarray) -> bool:
    tensor.dtype, tensor.quant, tensor.sparsity, tensor.data = dtype, quant, None, data
    tensor.data.flags.writeable = False
    return True
