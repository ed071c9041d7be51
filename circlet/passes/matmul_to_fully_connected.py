"""A matrix product with constants is a fully connected layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Graph, Op
from circlet.ir.builder import constant
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.operands import operand
from circlet.passes.match import made_of
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class MatmulToFullyConnected:
    """Make a FULLY_CONNECTED of a BATCH_MATMUL whose second operand is one constant matrix.

    Before: `BATCH_MATMUL(x[2,5,3], w[3,4])`. After: `FULLY_CONNECTED{keep_num_dims}(x, w[4,3])`,
    which takes a bias and an activation, and whose weights runtimes pack once. Only of floats, and
    where nothing else reads the matrix. Sums may be formed in another order, so last bits differ.
    """

    name = "matmul-to-fully-connected"
    needs = frozenset({"BATCH_MATMUL"})
    is_exact = False

    def run(self, graph: Graph) -> bool:
        """Replace every product that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "BATCH_MATMUL" and _is_layer(op, rewriter):
                rewriter.replace([op], _layer(op))
        return rewriter.finish()


def _is_layer(op: Op, rewriter: Rewriter) -> bool:
    data, matrix = operand(op, 0), operand(op, 1)
    if op.attributes(BatchMatMulAttrs).adj_x or matrix.data is None or matrix.sparsity is not None:
        return False
    if data.dtype is not DType.FLOAT32 or matrix.dtype is not DType.FLOAT32:
        return False
    shape = matrix.static_shape
    if len(shape) < 2 or any(size != 1 for size in shape[:-2]) or 0 in shape:
        return False
    ranked = data.has_rank and len(data.shape) >= max(2, len(shape))
    return ranked and len(rewriter.readers(matrix)) == 1 and not matrix.is_variable


def _layer(op: Op) -> Op:
    matrix = operand(op, 1)
    assert matrix.data is not None
    values = matrix.data.reshape(matrix.static_shape[-2:])
    weights = values if op.attributes(BatchMatMulAttrs).adj_y else values.T
    made = constant(matrix.name, np.ascontiguousarray(weights))
    attrs = FullyConnectedAttrs(keep_num_dims=True)
    return made_of(op, "FULLY_CONNECTED", [op.inputs[0], made, None], attrs)
