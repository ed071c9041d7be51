"""Constants behind DequantizeLinear are stored the way in which they are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import Graph, Op
from circlet.ir.builder import constant
from circlet.ops.onnx.quantisation import DEQUANTIZE
from circlet.passes.quantised import MOVES, moved
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class FoldMoves:
    """Move stored integers when the network is rewritten, not the real numbers in each run.

    Before: `DequantizeLinear(w) -> TRANSPOSE -> CONV_2D`. After: `DequantizeLinear(w') -> CONV_2D`,
    as engines expect it of weights that they multiply as integers.
    """

    name = "fold-moves"
    needs = frozenset({"CUSTOM"})

    def run(self, graph: Graph) -> bool:
        """Fold chains of moves one by one, from the constant on."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind in MOVES:
                _fold(op, rewriter)
        return rewriter.finish()


def _fold(move: Op, rewriter: Rewriter) -> None:
    source = rewriter.producer(move.inputs[0])
    if source is None or source.label != DEQUANTIZE or not rewriter.is_private(source.outputs[0]):
        return
    if any(t is not None and t.data is None for t in (*source.inputs, *move.inputs[1:])):
        return
    operands = [tensor for tensor in source.inputs if tensor is not None]
    shape = operands[0].static_shape
    if any(t.elements > 1 and len(t.shape) != len(shape) for t in operands):
        return  # scales of blocks, or along an axis that an attribute tells
    values: list[np.ndarray] = []
    for tensor in operands:
        assert tensor.data is not None
        full = moved(np.ascontiguousarray(np.broadcast_to(tensor.data, shape)), [move])
        if full is None or full.shape != move.outputs[0].shape:
            return
        values.append(full)
    axes = [axis for axis in range(values[0].ndim) if any(_vary(v, axis) for v in values[1:])]
    if len(axes) > 1:
        return  # no longer those of one axis
    places = tuple(slice(None if axis in axes else 1) for axis in range(values[0].ndim))
    values[1:] = (np.ascontiguousarray(value[places]) for value in values[1:])
    made = [constant(t.name, v, dtype=t.dtype) for t, v in zip(operands, values, strict=True)]
    rewriter.replace([source, move], replace(source, inputs=[*made], outputs=[*move.outputs]))


def _vary(values: np.ndarray, axis: int) -> bool:
    """Whether there are several values along an axis."""
    return bool((values != values.take([0], axis)).any()) if values.size else False
