"""Operators as TFLite's own tools write them: files can store them, engines take them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import DType, Graph, Op, Quantization, Tensor
from circlet.ir.builder import constant
from circlet.ops.operands import operand
from circlet.ops.shape import ReshapeAttrs
from circlet.passes.canonicalize_reshape import target_sizes
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter

_OUTPUTS_AT = {"CONV_2D": 0, "CONV_3D": -1, "DEPTHWISE_CONV_2D": -1, "FULLY_CONNECTED": 0}


@dataclass(frozen=True)
class LegalizeTflite:
    """Give layers the bias, and RESHAPE the sizes, that other engines want to be there.

    Convolutions and fully connected layers of constant weights that have no bias get one of zeros,
    RESHAPE its sizes both as an operand and as an attribute. Results are the same but for the sign
    of sums of -0.
    """

    name = "legalize-tflite"
    needs = frozenset({*_OUTPUTS_AT, "RESHAPE"})
    contract = Contract(grows={"bytes_moved": "biases and sizes are read"})

    def run(self, graph: Graph) -> bool:
        """Rewrite every op that lacks one of these."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            made = _with_sizes(op) if op.kind == "RESHAPE" else _with_bias(op)
            if made is not None:
                rewriter.replace([op], made)
        return rewriter.finish()


def _with_sizes(op: Op) -> Op | None:
    sizes, given = target_sizes(op.outputs[0]), op.input(1)
    if sizes is None or (given is not None and op.attributes(ReshapeAttrs).new_shape == sizes):
        return None
    target = constant(f"{op.outputs[0].name}/shape", np.array(sizes, np.int32))
    return replace(op, inputs=[op.inputs[0], target], attrs=ReshapeAttrs(sizes))


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
