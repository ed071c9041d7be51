"""A minimum and a maximum with constants are an activation."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.activation import EIGHT_BIT_FORMS
from circlet.ops.opdef import NoAttrs
from circlet.ops.operands import is_affine, limits, scale_of, zero_of
from circlet.ops.requantize import quantize_value
from circlet.passes.match import made_of, same_meaning
from circlet.passes.rewriter import Rewriter

_CLAMPS = {"RELU": (0.0, inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
Bounds = tuple[float, float]


@dataclass(frozen=True)
class ClampToRelu:
    """Make a RELU, RELU6 or RELU_N1_TO_1 of what clamps to the same bounds.

    Before: `MINIMUM(MAXIMUM(x, 0), 6)` or `MINIMUM(RELU(x), 6)`. After: `RELU6(x)`, which the op
    before can take over. Quantised values need one scale, and bounds that are stored as the
    activation's are.
    """

    name = "clamp-to-relu"
    needs = frozenset({"MINIMUM", "MAXIMUM"})

    def run(self, graph: Graph) -> bool:
        """Replace pairs before single ones, of which a later op may still make a pair."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind in (*self.needs, *_CLAMPS):
                _replace_pair(op, rewriter)
        for op in rewriter.ops():
            found = _clamped(op) if op.kind in self.needs else None
            if found is not None:
                _replace([op], *found, rewriter)
        return rewriter.finish()


def _replace_pair(op: Op, rewriter: Rewriter) -> None:
    second = _clamped(op)
    if second is None:
        return
    middle, (least, most) = second
    first = rewriter.producer(middle)
    before = None if first is None else _clamped(first)
    if first is None or before is None or not rewriter.is_private(middle):
        return
    source, (low, high) = before
    joined = min(max(low, least), most), max(min(high, most), least)
    _replace([first, op], source, joined, rewriter)


def _replace(ops: list[Op], source: Tensor, bounds: Bounds, rewriter: Rewriter) -> None:
    result = ops[-1].outputs[0]
    kind = next((k for k in _CLAMPS if _bounds_of(k, result) == bounds), None)
    if kind is not None and (len(ops) > 1 or ops[0].kind != kind):
        rewriter.replace(ops, made_of(ops[-1], kind, [source], NoAttrs()))


def _clamped(op: Op) -> tuple[Tensor, Bounds] | None:
    """What an op clamps, and the stored bounds that it clamps it to."""
    result = op.outputs[0]
    if op.kind in _CLAMPS:
        source = op.inputs[0]
        return (
            None
            if source is None or not _is_like(source, result)
            else (
                source,
                _bounds_of(op.kind, result),
            )
        )
    if op.kind not in ("MINIMUM", "MAXIMUM") or not _has_activations(result):
        return None
    for source, bound in (op.inputs, op.inputs[::-1]):
        if source is None or bound is None or bound.data is None or bound.data.size != 1:
            continue
        if _is_like(source, result) and same_meaning(bound, result):
            return source, _bounded(op.kind, float(bound.data.reshape(-1)[0]), result)
    return None


def _bounded(kind: str, bound: float, result: Tensor) -> Bounds:
    low, high = _range_of(result)
    return (low, min(bound, high)) if kind == "MINIMUM" else (max(bound, low), high)


def _is_like(source: Tensor, result: Tensor) -> bool:
    return same_meaning(source, result) and source.shape == result.shape and source.has_rank


def _has_activations(tensor: Tensor) -> bool:
    if tensor.dtype is DType.FLOAT32:
        return True
    return tensor.dtype.name in EIGHT_BIT_FORMS and is_affine(tensor)


def _range_of(tensor: Tensor) -> Bounds:
    if tensor.dtype is DType.FLOAT32:
        return -inf, inf
    low, high = limits(tensor.dtype)
    return float(low), float(high)


def _bounds_of(kind: str, tensor: Tensor) -> Bounds:
    """The stored bounds of an activation."""
    bounds, (low, high) = _CLAMPS[kind], _range_of(tensor)
    if tensor.dtype is DType.FLOAT32 or not is_affine(tensor):
        return bounds
    scale, zero = np.float32(scale_of(tensor)), zero_of(tensor)
    stored = [b if b == inf else float(quantize_value(b, scale, zero)) for b in bounds]
    return max(stored[0], low), min(stored[1], high)
