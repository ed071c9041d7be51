"""A bias for every convolution, as LiteRT wants it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import DType, Graph, Op, Quantization, Tensor
from circlet.ir.builder import constant
from circlet.ops.operands import operand
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter

_OUTPUTS_AT = {"CONV_2D": 0, "CONV_3D": -1, "DEPTHWISE_CONV_2D": -1}


@dataclass(frozen=True)
class AddBiases:
    """Give convolutions of constant weights that have no bias one of zeros.

    Before: `CONV_2D(x, w)`, which LiteRT refuses. After: `CONV_2D(x, w, zeros)`. Results are the
    same but for the sign of sums of -0.
    """

    name = "add-biases"
    needs = frozenset(_OUTPUTS_AT)
    contract = Contract(grows={"bytes_moved": "biases are read"})

    def run(self, graph: Graph) -> bool:
        """Add every bias that lacks."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            made = _with_bias(op)
            if made is not None:
                rewriter.replace([op], made)
        return rewriter.finish()


def _with_bias(op: Op) -> Op | None:
    if op.kind not in _OUTPUTS_AT or op.input(2) is not None:
        return None
    data, weights = operand(op, 0), operand(op, 1)
    count = weights.shape[_OUTPUTS_AT[op.kind]] if weights.data is not None else None
    bias = None if count is None else _zeros(op, data, weights, count)
    return None if bias is None else replace(op, inputs=[data, weights, bias])


def _zeros(op: Op, data: Tensor, weights: Tensor, count: int) -> Tensor | None:
    name = f"{op.outputs[0].name}/bias"
    if data.dtype is DType.FLOAT32:
        return constant(name, np.zeros(count, np.float32))
    if data.quant is None or weights.quant is None or not weights.quant.is_affine:
        return None
    scales = np.broadcast_to(weights.quant.scale, (count,)) * data.quant.first[0]
    kept = scales[:1] if len(weights.quant.scale) == 1 else scales
    wide = np.int64 if data.dtype is DType.INT16 else np.int32
    return constant(name, np.zeros(count, wide), Quantization.per_channel(kept, 0))
