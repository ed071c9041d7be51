"""UINT8 values between QuantizeLinear and DequantizeLinear are stored as INT8."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.ir import DType, Graph, Op
from circlet.ir.builder import constant
from circlet.ops.onnx.quantisation import DEQUANTIZE, QUANTIZE
from circlet.passes.quantised import parameters
from circlet.passes.rewriter import Rewriter


def store_signed(graph: Graph) -> bool:
    """Flip the top bit of what is stored and of zero points, as integer weights are INT8.

    Before: `QuantizeLinear{UINT8, zero 128} -> DequantizeLinear`. After:
    `QuantizeLinear{INT8, zero 0} -> DequantizeLinear`, of the same real values.
    """
    rewriter = Rewriter(graph)
    for op in rewriter.ops():
        if op.label == QUANTIZE and op.outputs[0].dtype is DType.UINT8:
            _flip(op, rewriter)
    return rewriter.finish()


def _flip(op: Op, rewriter: Rewriter) -> None:
    stored, known = op.outputs[0], parameters(op)
    readers = rewriter.readers(stored)
    if known is None or not readers or stored in rewriter.boundary:
        return
    if any(r.label != DEQUANTIZE or parameters(r) != known for r in readers):
        return
    zero = constant("zero", np.asarray(known.zero - 128, np.int8))
    signed = stored.like()
    signed.dtype, signed.has_rank = DType.INT8, stored.has_rank
    rewriter.replace([op], replace(op, inputs=[*op.inputs[:2], zero], outputs=[signed]))
    for reader in readers:
        rewriter.replace([reader], replace(reader, inputs=[signed, reader.inputs[1], zero]))
