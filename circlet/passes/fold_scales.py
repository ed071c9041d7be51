"""Scales and offsets of channels become part of the weights before them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.requantize import activation_of
from circlet.passes.derived import Derived
from circlet.passes.rewriter import Rewriter

# By kinds: the operands that are weights and bias, and the axis of the weights' output channels.
PRODUCTS = {
    "CONV_2D": (1, 2, 0),
    "DEPTHWISE_CONV_2D": (1, 2, 3),
    "CONV_3D": (1, 2, 4),
    "TRANSPOSE_CONV": (1, 3, 0),
    "FULLY_CONNECTED": (1, 2, 0),
}
_MOST_BYTES = 1 << 28
_SCALES = ("MUL", "DIV")


@dataclass(frozen=True)
class FoldScales:
    """Multiply weights by what their channels are multiplied by, and add to the bias.

    Before: `CONV_2D -> MUL(scale of channels) -> ADD(offset of channels)`, as normalisations of
    batches are stored. After: `CONV_2D`. Only of floats, and where nothing else reads what is
    scaled. Products are rounded before they are summed, so last bits differ.

    Attributes:
        copies: Whether weights that other operators read too are copied, which files grow by.
        derived: The weights that were scaled so far.
    """

    name = "fold-scales"
    is_exact = False
    needs = frozenset(PRODUCTS)
    copies: bool = True
    derived: Derived = field(default_factory=Derived, compare=False)

    def run(self, graph: Graph) -> bool:
        """Fold in execution order, so that a scale and the offset behind it go in one run."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind in ("MUL", "DIV", "ADD", "SUB"):
                self._fold(op, rewriter)
        return rewriter.finish()

    def _fold(self, op: Op, rewriter: Rewriter) -> None:
        for place in (0, 1)[: 1 if op.kind in ("SUB", "DIV") else 2]:
            product, factor = rewriter.producer(op.inputs[place]), op.inputs[1 - place]
            if product is None or factor is None or product.kind not in PRODUCTS:
                continue
            values = of_channels(factor, op.outputs[0])
            if op.kind in _SCALES and not self.copies and has_other_readers(product, rewriter):
                return
            if values is not None and _may_change(product, op, rewriter):
                self._replace(op, product, values, rewriter)
            return

    def _replace(self, op: Op, product: Op, values: np.ndarray, rewriter: Rewriter) -> None:
        at, bias_at, axis = PRODUCTS[product.kind]
        weights, bias = product.inputs[at], product.input(bias_at)
        assert weights is not None
        known = np.zeros(values.size, np.float32)
        if bias is not None and bias.data is not None:
            known = bias.data.reshape(-1)
        inputs = [*product.inputs, *[None] * (bias_at + 1 - len(product.inputs))]
        with np.errstate(all="ignore"):
            if op.kind in _SCALES:
                factors = np.reciprocal(values) if op.kind == "DIV" else values
                key = (self.name, axis, factors.tobytes())
                inputs[at] = self.derived.of(weights, key, lambda: _scaled(weights, factors, axis))
                known = known * factors
            else:
                known = known + values if op.kind == "ADD" else known - values
        if inputs[at] is None or not np.isfinite(known).all():
            return
        if bias is not None or op.kind not in _SCALES:
            name = f"{op.name}_bias" if bias is None else bias.name
            inputs[bias_at] = constant(name, known)
        attrs = replace(product.attrs, activation=activation_of(op))  # type: ignore[type-var]
        fresh = replace(product, inputs=inputs, outputs=op.outputs, attrs=attrs)
        rewriter.replace([product, op], fresh)


def _scaled(weights: Tensor, factors: np.ndarray, axis: int) -> Tensor | None:
    """Weights with each channel multiplied by its factor; None where one is not finite."""
    data = np.asarray(weights.data)
    spread = factors.reshape([-1 if i == axis else 1 for i in range(data.ndim)])
    scaled = np.ascontiguousarray(data * spread)
    return constant(weights.name, scaled) if np.isfinite(scaled).all() else None


def has_other_readers(product: Op, rewriter: Rewriter) -> bool:
    """Whether more operators than one read a product's weights."""
    weights = product.input(PRODUCTS[product.kind][0])
    return weights is not None and len(rewriter.readers(weights)) > 1


def of_channels(factor: Tensor, result: Tensor) -> np.ndarray | None:
    """The constants that channels, the last axis, are combined with, one for each."""
    channels = result.shape[-1] if result.has_rank and result.shape else None
    data = factor.data
    if data is None or factor.dtype is not DType.FLOAT32 or channels is None:
        return None
    if data.size not in (1, channels) or (data.size > 1 and data.shape[-1] != channels):
        return None
    if data.ndim > len(result.shape) or not np.isfinite(data).all():
        return None
    return np.ascontiguousarray(np.broadcast_to(data.reshape(-1), (channels,)))


def _may_change(product: Op, op: Op, rewriter: Rewriter) -> bool:
    """Whether weights and bias are float constants, and the op alone reads the result as it is."""
    at, bias_at, _ = PRODUCTS[product.kind]
    result = product.outputs[0]
    if not has_float_constants(product.input(at), product.input(bias_at)):
        return False
    same = result.dtype is op.outputs[0].dtype is DType.FLOAT32
    plain = activation_of(product) == "NONE" and result.shape == op.outputs[0].shape
    return same and plain and rewriter.is_private(result)


def has_float_constants(weights: Tensor | None, bias: Tensor | None) -> bool:
    """Whether weights, and a bias where there is one, are float constants, stored plainly."""
    if weights is None or weights.data is None or weights.dtype is not DType.FLOAT32:
        return False
    if bias is not None and (bias.data is None or bias.dtype is not DType.FLOAT32):
        return False
    return weights.sparsity is None and weights.size_bytes <= _MOST_BYTES
