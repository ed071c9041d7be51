"""Scales and offsets of channels become part of the weights behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.geometry import UNPADDED
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.passes.contract import Contract
from circlet.passes.fold_scales import (
    PRODUCTS,
    has_float_constants,
    has_other_readers,
    of_channels,
)
from circlet.passes.rewriter import Rewriter

_DATA = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 2}
_SCALES, _OFFSETS = ("MUL", "DIV"), ("ADD", "SUB")
_Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FoldInputScales:
    """Multiply weights by what the channels they read are multiplied by; bias takes offsets.

    Before: `MUL(x, scale of channels) -> FULLY_CONNECTED`. After: `FULLY_CONNECTED(x)`. Offsets go
    only where no padding is read, whose zeros they would not be added to. Only of floats, and where
    nothing else reads what is scaled, or the weights. Sums are rounded otherwise, so last bits
    differ.
    """

    name = "fold-input-scales"
    needs = frozenset(_DATA)
    contract = Contract(
        tolerance=1e-4,
        why="products are rounded before they are summed",
    )

    def run(self, graph: Graph) -> bool:
        """Fold all that stands before a product, the last one first."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            product = op if op.kind in _DATA else None
            while product is not None:
                product = _fold(product, rewriter)
        return rewriter.finish()


def _fold(product: Op, rewriter: Rewriter) -> Op | None:
    """The product with what stands before it; None where that stays."""
    at, bias_at, _ = PRODUCTS[product.kind]
    scaled = operand(product, _DATA[product.kind])
    op = rewriter.producer(scaled)
    if op is None or op.kind not in (*_SCALES, *_OFFSETS) or not rewriter.is_private(scaled):
        return None
    if not has_float_constants(product.input(at), product.input(bias_at)):
        return None
    if activation_of(op) != "NONE" or has_other_readers(product, rewriter):
        return None
    found = _source_and_values(op)
    if found is None or not _fits(product, op, found[1].size):
        return None
    inputs = _folded(product, op, found[1])
    if inputs is None:
        return None
    inputs[_DATA[product.kind]] = found[0]
    fresh = replace(product, inputs=inputs)
    rewriter.replace([op, product], fresh)
    return fresh


def _source_and_values(op: Op) -> tuple[Tensor, npt.NDArray[np.float32]] | None:
    """What an op changes, and the constants of channels that it changes it by."""
    result = op.outputs[0]
    for place in (0, 1) if op.kind in ("MUL", "ADD") else (0,):
        source, factor = operand(op, place), operand(op, 1 - place)
        same = source.shape == result.shape and source.dtype is DType.FLOAT32
        values = of_channels(factor, result) if same and source.data is None else None
        if values is not None:
            return source, values
    return None


def _fits(product: Op, op: Op, channels: int) -> bool:
    """Whether weights stand for single channels, and see no zeros of a padding for an offset."""
    weights = operand(product, PRODUCTS[product.kind][0]).static_shape
    if product.kind == "DEPTHWISE_CONV_2D":
        fits = weights[3] % channels == 0
    else:
        fits = weights[-1] == channels
    if op.kind in _SCALES or product.kind == "FULLY_CONNECTED":
        return fits
    return fits and vars(product.attrs).get("padding") == UNPADDED and _sees_all(product)


def _sees_all(product: Op) -> bool:
    return product.kind in ("CONV_2D", "DEPTHWISE_CONV_2D")


def _folded(product: Op, op: Op, values: npt.NDArray[np.float32]) -> list[Tensor | None] | None:
    """The product's inputs with other weights or another bias; None where a number is too large."""
    at, bias_at, axis = PRODUCTS[product.kind]
    weights, bias = operand(product, at), product.input(bias_at)
    assert weights.data is not None
    spread: _Reals = values.astype(np.float64)
    if product.kind == "DEPTHWISE_CONV_2D":
        spread = np.repeat(spread, weights.static_shape[3] // values.size)
    inputs = [*product.inputs, *[None] * (bias_at + 1 - len(product.inputs))]
    with np.errstate(all="ignore"):
        if op.kind in _SCALES:
            factor = 1 / spread if op.kind == "DIV" else spread
            made = (weights.data * factor).astype(np.float32)
            inputs[at] = constant(weights.name, made)
        else:
            others = tuple(i for i in range(weights.data.ndim) if i != axis)
            moved = (weights.data * (spread if op.kind == "ADD" else -spread)).sum(others)
            known = 0 if bias is None or bias.data is None else bias.data.reshape(-1)
            made = (known + moved).astype(np.float32)
            inputs[bias_at] = constant(f"{product.name}_bias" if bias is None else bias.name, made)
    return inputs if np.isfinite(made).all() else None
