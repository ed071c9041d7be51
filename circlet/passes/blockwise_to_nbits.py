"""A fully connected layer over INT4 weights with scales per block is a product by blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from circlet.ir import BlockwiseQuant, DType, Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.limits import DEFAULT_LIMITS, MemoryBudget
from circlet.ops.dense import block_scales
from circlet.ops.onnx import nbits
from circlet.ops.onnx.record import onnx_op
from circlet.ops.opdef import NoAttrs
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.passes.contract import Contract
from circlet.passes.match import made_of
from circlet.passes.recurrent_layer import reshaped
from circlet.passes.rewriter import Rewriter

_BITS = 4
_LEAST_BLOCK = 32  # of XNNPACK's kernels
_MIDDLES = np.uint8(0x88)  # of two elements: what signed ones are stored plus
_OPSET = 1  # of com.microsoft


@dataclass(frozen=True)
class BlockwiseToNbits:
    """Make a MatMulNBits and a RELU of a layer of float inputs and INT4 weights in blocks.

    Before: `FULLY_CONNECTED{RELU}(x, w)`. After: `RELU(MatMulNBits{accuracy_level=4}(x, w))`, which
    may round inputs to 8 bits, in steps of 32 of them. LiteRT does, in steps of a row (XNNPACK's
    kernels qd8-f32-qb4w). A layer whose weights a DEQUANTIZE makes is another: it rounds nothing.

    Attributes:
        budget: What the weights in their other form are charged to.
    """

    name = "blockwise-to-nbits"
    needs = frozenset({"FULLY_CONNECTED"})
    contract = Contract(
        native_only="MatMulNBits is no operator of TFLite or Circle",
        grows=dict.fromkeys(("operators", "bytes_moved"), "the clamp becomes an operator"),
    )
    budget: MemoryBudget = field(
        default_factory=partial(DEFAULT_LIMITS.memory_budget, 0), compare=False
    )

    def run(self, graph: Graph) -> bool:
        """Replace every layer that can be.

        Raises:
            LimitError: More memory would be needed than is allowed.
        """
        rewriter = Rewriter(graph)
        stored: dict[Tensor, tuple[Tensor, Tensor]] = {}
        for op in rewriter.ops():
            if op.kind != "FULLY_CONNECTED" or not _is_blockwise(op):
                continue
            weights = operand(op, 1)
            if weights not in stored:
                scales = block_scales(weights)
                if scales is None:
                    continue
                stored[weights] = self._stored(weights, scales)
            rewriter.replace([op], *_parts(op, *stored[weights]))
        return rewriter.finish()

    def _stored(self, weights: Tensor, scales: np.ndarray) -> tuple[Tensor, Tensor]:
        """Weights and scales as MatMulNBits reads them."""
        assert weights.data is not None
        rows, depth = weights.static_shape
        raw = np.asarray(weights.data).reshape(-1).view(np.uint8)[: rows * depth // 2]
        self.budget.charge(raw.nbytes + scales.nbytes, weights.name, "its elements from 0 up")
        blocks = scales.size // rows
        packed = (raw ^ _MIDDLES).reshape(rows, blocks, raw.size // scales.size)
        return constant(weights.name, packed), constant(f"{weights.name}/scales", scales)


def _is_blockwise(op: Op) -> bool:
    """Whether a layer is of floats and INT4 weights in blocks, whose scales may be unfit."""
    weights, bias = op.input(1), op.input(2)
    data = op.input(0)
    if data is None or weights is None or weights.dtype is not DType.INT4:
        return False
    floats = (data, *op.outputs, *([] if bias is None else [bias]))
    if any(t.dtype is not DType.FLOAT32 for t in floats) or not data.has_rank or not data.shape:
        return False
    details = weights.quant.details if weights.quant is not None else None
    if not isinstance(details, BlockwiseQuant) or details.block_size % _LEAST_BLOCK:
        return False
    shape = weights.static_shape if None not in weights.shape else ()
    if weights.data is None or len(shape) != 2 or data.shape[-1] != shape[1]:
        return False
    if len(op.outputs[0].shape) != len(data.shape) and None in op.outputs[0].shape:
        return False
    is_whole = weights.data.nbytes * 2 >= shape[0] * shape[1] > 0
    return is_whole and weights.sparsity is None


def _parts(op: Op, weights: Tensor, scales: Tensor) -> list[Op]:
    """The product, its rows in the sizes that the layer has, and the clamp."""
    data, result = operand(op, 0), op.outputs[0]
    units, depth = operand(op, 1).static_shape
    activation, sizes = activation_of(op), (*data.shape[:-1], units)
    inputs = [data, weights, scales, None, None, op.input(2)]
    sizes_of_weights = {"N": units, "K": depth, "block_size": depth * units // scales.elements}
    product = onnx_op(
        nbits.KIND,
        inputs if op.input(2) is not None else inputs[:3],
        [result],
        op.origin,
        opset=_OPSET,
        bits=_BITS,
        accuracy_level=nbits.INT8_ACCURACY,
        **sizes_of_weights,
    )
    parts = [product]
    if len(sizes) != len(result.shape):
        product.outputs = [Tensor(f"{result.name}/rows", DType.FLOAT32, sizes)]
        parts.append(reshaped(product.outputs[0], result, op.origin))
    if activation != "NONE":
        last, clamped = parts[-1], result.like(f"{result.name}/unclamped")
        last.outputs = [clamped]
        parts.append(made_of(op, activation, [clamped], NoAttrs()))
    return parts
