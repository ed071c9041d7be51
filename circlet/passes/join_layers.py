"""Layers that read one tensor, and whose results are joined or added, are one layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.layout import concatenation_axis
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.passes.fold_scales import PRODUCTS, has_float_constants, has_other_readers
from circlet.passes.rewriter import Rewriter

_KINDS = frozenset({"FULLY_CONNECTED", "CONV_2D"})
_SUMS = {"ADD": 1, "SUB": -1}


@dataclass(frozen=True)
class JoinLayers:
    """Compute layers side by side over one input as one layer with the weights of all.

    Before: `CONCATENATION(CONV_2D(x, v), CONV_2D(x, w))` along the channels. After:
    `CONV_2D(x, [v; w])`. `ADD(FULLY_CONNECTED(x, v), FULLY_CONNECTED(x, w))` is
    `FULLY_CONNECTED(x, v + w)`. Only of floats and of equal attributes, and where nothing else
    reads a result. Sums may be formed in another order, so last bits differ.
    """

    name = "join-layers"
    needs = _KINDS
    is_exact = False

    def run(self, graph: Graph) -> bool:
        """Join all layers that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "CONCATENATION":
                _join(op, rewriter)
            elif op.kind in _SUMS:
                _add(op, rewriter)
        return rewriter.finish()


def _layer(tensor: Tensor | None, rewriter: Rewriter) -> Op | None:
    """The layer that makes a tensor, where it may become part of another."""
    op = rewriter.producer(tensor)
    if op is None or tensor is None or op.kind not in _KINDS or not rewriter.is_private(tensor):
        return None
    at, bias_at, _ = PRODUCTS[op.kind]
    if not has_float_constants(op.input(at), op.input(bias_at)) or has_other_readers(op, rewriter):
        return None
    groups = op.kind == "CONV_2D" and operand(op, 0).shape[-1:] != operand(op, 1).shape[-1:]
    return None if groups or tensor.dtype is not DType.FLOAT32 else op


def _alike(op: Op) -> tuple[object, ...]:
    """What layers have in common that may be one."""
    return op.kind, op.inputs[0], op.attrs, operand(op, 1).shape[1:]


def _join(op: Op, rewriter: Rewriter) -> None:
    """Join neighbours among what a concatenation along the last axis reads."""
    rank = len(op.outputs[0].shape)
    if not op.outputs[0].has_rank or concatenation_axis(op) != rank - 1:
        return
    layers = [_layer(tensor, rewriter) for tensor in op.inputs]
    if len(set(op.inputs)) != len(op.inputs):
        return
    places = groupby(range(len(layers)), key=lambda i: _key(layers[i], i))
    runs = [[*run] for _, run in places]
    if all(len(run) == 1 for run in runs):
        return
    inputs: list[Tensor | None] = []
    new, old = list[Op](), list[Op]()
    for run in runs:
        parts = [layer for i in run if (layer := layers[i]) is not None]
        if len(run) == 1:
            inputs.append(op.inputs[run[0]])
            continue
        made = _stacked(parts, op, alone=len(runs) == 1)
        new.append(made)
        old += parts
        inputs.append(made.outputs[0])
    rest = [] if len(runs) == 1 else [replace(op, inputs=inputs)]
    rewriter.replace([*sorted(old, key=rewriter.position), op], *new, *rest)


def _key(layer: Op | None, place: int) -> object:
    return place if layer is None else _alike(layer)


def _stacked(layers: Sequence[Op], op: Op, *, alone: bool) -> Op:
    """One layer for several; it writes what the concatenation does where it reads no others."""
    first = layers[0]
    weights = np.concatenate([_values(layer, 1) for layer in layers])
    biases = np.concatenate([_values(layer, 2) for layer in layers])
    result = op.outputs[0]
    if not alone:
        sizes = first.outputs[0].shape
        result = first.outputs[0].like()
        result.shape, result.default_shape = (*sizes[:-1], len(weights)), None
    return _with(first, weights, biases, result)


def _with(layer: Op, weights: np.ndarray, biases: np.ndarray, result: Tensor) -> Op:
    has_bias = bool(biases.any())
    name = operand(layer, 1).name
    inputs = [layer.inputs[0], constant(name, weights)]
    inputs.append(constant(f"{name}/bias", biases) if has_bias else None)
    return replace(layer, inputs=inputs, outputs=[result])


def _values(layer: Op, place: int) -> np.ndarray:
    """The weights of a layer, or its bias, zeros where it has none."""
    tensor = layer.input(place)
    if tensor is None or tensor.data is None:
        return np.zeros(operand(layer, 1).static_shape[0], np.float32)
    return tensor.data if place == 1 else tensor.data.reshape(-1)


def _add(op: Op, rewriter: Rewriter) -> None:
    layers = [_layer(tensor, rewriter) for tensor in op.inputs]
    first, second = layers[0], layers[1]
    if first is None or second is None or first is second or _alike(first) != _alike(second):
        return
    shapes = {tensor.shape for tensor in (*op.outputs, *first.outputs, *second.outputs)}
    if len(shapes) != 1 or activation_of(first) != "NONE":
        return
    sign = np.float32(_SUMS[op.kind])
    weights, biases = (_values(first, i) + sign * _values(second, i) for i in (1, 2))
    made = _with(first, weights, biases, op.outputs[0])
    made.attrs = replace(first.attrs, activation=activation_of(op))  # type: ignore[type-var]
    old = sorted((first, second), key=rewriter.position)
    rewriter.replace([*old, op], made)
