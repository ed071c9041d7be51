"""Transposes in front of fully connected layers become another order of their weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.layout import permutation
from circlet.ops.operands import operand
from circlet.passes.rewriter import Rewriter

_TYPES = (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16)
_MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class FoldTransposes:
    """Have weights take the order in which an image lies, in place of a transpose before them.

    Before: `x[1,4,4,16] -> TRANSPOSE [0,3,1,2] -> RESHAPE [1,256] -> FULLY_CONNECTED(w)`, as
    networks flatten images whose channels are first. After: `RESHAPE(x) -> FULLY_CONNECTED(w')`,
    the columns of w' in the order of x. Float sums are formed in another order.
    """

    name = "fold-transposes"
    is_exact = False
    needs = frozenset({"TRANSPOSE"})

    def run(self, graph: Graph) -> bool:
        """Fold every transpose that only a layer reads, flattened."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "FULLY_CONNECTED" and _may_change(op, rewriter):
                _fold(op, rewriter)
        return rewriter.finish()


def _may_change(layer: Op, rewriter: Rewriter) -> bool:
    """Whether the weights are a plain constant of the layer alone."""
    weights = operand(layer, 1)
    if weights.data is None or weights.dtype not in _TYPES or len(weights.shape) != 2:
        return False
    plain = weights.sparsity is None and not (weights.quant and weights.quant.details)
    quant = weights.quant
    by_rows = quant is None or not quant.is_per_channel or quant.axis == 0
    alone = len(rewriter.readers(weights)) == 1 and not weights.is_variable
    return plain and by_rows and alone and weights.data.nbytes <= _MOST_BYTES


def _fold(layer: Op, rewriter: Rewriter) -> None:
    flat = operand(layer, 0)
    reshape = rewriter.producer(flat)
    if reshape is None or reshape.kind != "RESHAPE" or not rewriter.is_private(flat):
        return
    turned = operand(reshape, 0)
    transpose = rewriter.producer(turned)
    if transpose is None or transpose.kind != "TRANSPOSE" or not rewriter.is_private(turned):
        return
    order = _columns(transpose, operand(layer, 1))
    if order is None:
        return
    source, weights = operand(transpose, 0), _reordered(operand(layer, 1), order)
    again = replace(reshape, inputs=[source, *reshape.inputs[1:]])
    inputs = [flat, weights, *layer.inputs[2:]]
    rewriter.replace([transpose, reshape, layer], again, replace(layer, inputs=inputs))


def _columns(transpose: Op, weights: Tensor) -> np.ndarray | None:
    """Which column of the weights each element of a row in its own order meets.

    None where the rows of the layer are not made of the axes that are moved, or sizes are open.
    """
    source, order = operand(transpose, 0), permutation(transpose)
    if order is None or not source.has_rank or len(order) != len(source.shape):
        return None
    kept = next((i for i, axis in enumerate(order) if axis != i), len(order))
    columns = weights.static_shape[1]
    for first in range(kept, -1, -1):
        sizes = [source.shape[axis] for axis in order[first:]]
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes) and prod(known) == columns:
            back = np.argsort([axis - first for axis in order[first:]])
            return np.arange(columns).reshape(known).transpose(back).reshape(-1)
    return None


def _reordered(weights: Tensor, order: np.ndarray) -> Tensor:
    assert weights.data is not None
    return constant(weights.name, np.ascontiguousarray(weights.data[:, order]), weights.quant)
