"""A fully connected layer whose weights are computed is a matrix product."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import DType, Graph, Op
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.opdef import NoAttrs
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.passes.contract import Contract
from circlet.passes.match import made_of
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class FullyConnectedToMatmul:
    """Make a BATCH_MATMUL, an ADD for the bias and a RELU of a layer without constant weights.

    Before: `FULLY_CONNECTED{RELU}(x, w, bias)`. After:
    `ADD{RELU}(BATCH_MATMUL{adj_y}(x, w), bias)`. For runtimes whose layers want constants; it has
    more operators. Only of floats. Sums may be formed in another order, so last bits differ.
    """

    name = "fully-connected-to-matmul"
    needs = frozenset({"FULLY_CONNECTED"})
    contract = Contract(
        tolerance=1e-4,
        why="sums are formed in another order",
        grows=dict.fromkeys(("operators", "bytes_moved"), "bias and clamp become operators"),
    )

    def run(self, graph: Graph) -> bool:
        """Replace every layer that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "FULLY_CONNECTED" and _is_product(op):
                rewriter.replace([op], *_parts(op))
        return rewriter.finish()


def _is_product(op: Op) -> bool:
    data, weights = operand(op, 0), operand(op, 1)
    if weights.data is not None or not data.has_rank:
        return False
    if data.dtype is not DType.FLOAT32 or weights.dtype is not DType.FLOAT32:
        return False
    keeps = op.attributes(FullyConnectedAttrs).keep_num_dims
    rank, depths = len(data.shape), (data.shape[-1:], weights.shape[-1:])
    return (rank == 2 and depths[0] == depths[1]) or (keeps and rank > 2)


def _parts(op: Op) -> list[Op]:
    bias, result, activation = op.input(2), op.outputs[0], activation_of(op)
    product = made_of(op, "BATCH_MATMUL", [*op.inputs[:2]], BatchMatMulAttrs(adj_y=True))
    if bias is None and activation == "NONE":
        return [product]
    product.outputs = [result.like(f"{result.name}/product")]
    if bias is not None:
        attrs = AddAttrs(activation)
        return [product, made_of(op, "ADD", [product.outputs[0], bias], attrs)]
    return [product, made_of(op, activation, [product.outputs[0]], NoAttrs())]
