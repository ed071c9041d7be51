"""A layer adds what a residual connection brings before it stores its results."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.fused import FUSED_RESIDUAL, FusedAttrs
from circlet.ops.layout import paddings
from circlet.ops.operands import operand
from circlet.ops.requantize import FLOAT_ACTIVATION_RANGES, activation_of
from circlet.passes import Rewriter

_LAYERS = frozenset({"CONV_2D", "FULLY_CONNECTED"})
_IMAGE_RANK = 4


@dataclass(frozen=True)
class FuseResidual:
    """Let the layer whose sums an ADD reads last do the addition.

    Before: `CONV_2D(x, w, b) -> t, ADD(t, r){RELU} -> y`, also with `PAD(r)` that appends channels
    of zeros, with one pixel `r` for all pixels, and with FULLY_CONNECTED. After: one
    `FUSED_RESIDUAL(x, w, b, r)`. Sums are rounded as before, so results stay equal bit for bit
    where the layer adds its products in the same order.
    """

    name = "fuse-residual"
    needs = frozenset({"ADD"})

    def run(self, graph: Graph) -> bool:
        """Fuse every addition that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            parts = _matched(op, rewriter) if op.kind == "ADD" else ()
            if parts:
                rewriter.replace(parts, _fused(parts))
        return rewriter.finish()


def _fused(parts: tuple[Op, ...]) -> Op:
    layer, add = parts[0], parts[-1]
    others = [t for t in add.inputs if t is not None and t is not layer.outputs[0]]
    addend = parts[1].inputs[0] if len(parts) == 3 else others[0]
    inputs = [*layer.inputs, *[None] * (3 - len(layer.inputs)), addend]
    return Op(FUSED_RESIDUAL, inputs, add.outputs, FusedAttrs(parts), add.origin)


def _matched(add: Op, rewriter: Rewriter) -> tuple[Op, ...]:
    """The layer, a padding of its addend or none, and the ADD; nothing where none fits."""
    left, right = operand(add, 0), operand(add, 1)
    pairs = [(rewriter.producer(a), b) for a, b in ((left, right), (right, left))]
    layers = [(layer, other) for layer, other in pairs if layer is not None]
    for layer, other in sorted(layers, key=lambda p: rewriter.position(p[0]), reverse=True):
        made = layer.outputs[0]
        if not _clamps(add) or not rewriter.is_private(made) or not _can_add(layer, add):
            continue
        pad = rewriter.producer(other)
        if pad is not None and rewriter.is_private(other) and _appends_zeros(pad):
            return (layer, pad, add)
        if _fits(layer, other):
            return (layer, add)
    return ()


def _can_add(layer: Op, add: Op) -> bool:
    plain = activation_of(layer) == "NONE"
    shaped = layer.outputs[0].shape == add.outputs[0].shape
    return layer.kind in _LAYERS and plain and shaped and _is_float(layer)


def _clamps(add: Op) -> bool:
    return activation_of(add) in FLOAT_ACTIVATION_RANGES


def _is_float(layer: Op) -> bool:
    tensors = [t for t in (*layer.inputs, *layer.outputs) if t is not None]
    weights = [t for t in layer.inputs[1:] if t is not None]
    constant = all(t.data is not None and t.sparsity is None for t in weights)
    return constant and all(t.dtype is DType.FLOAT32 for t in tensors)


def _fits(layer: Op, other: Tensor) -> bool:
    if other.is_constant or other.is_variable or other.dtype is not DType.FLOAT32:
        return False
    shape, own = layer.outputs[0].static_shape, other.static_shape
    if own == shape:
        return True
    image = layer.kind == "CONV_2D" and len(own) == _IMAGE_RANK
    return image and own[1:3] == (1, 1) and own[3] == shape[3] and own[0] in (1, shape[0])


def _appends_zeros(pad: Op) -> bool:
    """Whether an op appends channels of zeros to an image and does no more."""
    source, amounts = pad.inputs[0], paddings(pad) if pad.kind == "PAD" else None
    if source is None or source.is_constant or source.dtype is not DType.FLOAT32:
        return False
    if amounts is None or len(amounts) != _IMAGE_RANK:
        return False
    *others, (before, after) = amounts
    return all(amount == (0, 0) for amount in others) and before == 0 and after > 0
