"""Activation functions, as one record or as a few element-wise ones."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.activation import LeakyReluAttrs
from circlet.ops.smooth import GeluAttrs

_MISH_IS_X = 20.0


def _floats(node: Node) -> Tensor:
    """Input 0, which must be FLOAT32."""
    if node[0].dtype is not DType.FLOAT32:
        raise NotLoweredError("only FLOAT32 has such a form")
    return node[0]


def _times(node: Node, x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else node.op("MUL", [x, node.const(np.float32(factor))])


def _plus(node: Node, x: Tensor, term: float) -> Tensor:
    return node.op("ADD", [x, node.const(np.float32(term))])


@importer("LeakyRelu")
def _leaky_relu(node: Node) -> Tensor:
    return node.op("LEAKY_RELU", [node[0]], LeakyReluAttrs(node.real("alpha", 0.01)))


@importer("PRelu")
def _prelu(node: Node) -> Tensor:
    x, slope = node[0], node[1]
    if x.has_rank and slope.has_rank and len(slope.shape) == 1 < len(x.shape):
        size = slope.shape[0]
        if size not in (None, 1, x.shape[-1]) and size == x.shape[1]:  # one for each channel
            slope = node.reshape(slope, [size, *[1] * (len(x.shape) - 2)])
    return node.op("PRELU", [x, slope])


def _bent(node: Node, x: Tensor, inner: float, alpha: float) -> Tensor:
    """max(x, 0) + alpha * (exp(min(x * inner, 0)) - 1)."""
    low = node.op("MINIMUM", [_times(node, x, inner), node.const(np.float32(0))])
    low = _times(node, node.op("ELU", [low]), alpha)
    return node.op("ADD", [node.op("RELU", [x]), low])


@importer("Elu")
def _elu(node: Node) -> Tensor:
    alpha = node.real("alpha", 1)
    return node.op("ELU", [node[0]]) if alpha == 1 else _bent(node, _floats(node), 1, alpha)


@importer("Celu")
def _celu(node: Node) -> Tensor:
    x, alpha = _floats(node), node.real("alpha", 1)
    if alpha == 1:
        return node.op("ELU", [x])
    if alpha <= 0:
        raise NotLoweredError("the exponential is not that of the negative side")
    return _bent(node, x, 1 / alpha, alpha)


@importer("HardSwish")
def _hard_swish(node: Node) -> Tensor:
    return node.op("HARD_SWISH", [node[0]])


@importer("HardSigmoid")
def _hard_sigmoid(node: Node) -> Tensor:
    x = _plus(node, _times(node, _floats(node), node.real("alpha", 0.2)), node.real("beta", 0.5))
    low = node.op("MAXIMUM", [x, node.const(np.float32(0))])
    return node.op("MINIMUM", [low, node.const(np.float32(1))])


@importer("Gelu")
def _gelu(node: Node) -> Tensor:
    return node.op("GELU", [node[0]], GeluAttrs(node.text("approximate", "none") == "tanh"))


@importer("Softplus")
def _softplus(node: Node) -> Tensor:
    """max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    x = _floats(node)
    small = node.op("EXP", [node.op("NEG", [node.op("ABS", [x])])])
    return node.op("ADD", [node.op("RELU", [x]), node.op("LOG", [_plus(node, small, 1)])])


@importer("Softsign")
def _softsign(node: Node) -> Tensor:
    x = _floats(node)
    return node.op("DIV", [x, _plus(node, node.op("ABS", [x]), 1)])


@importer("Swish")
def _swish(node: Node) -> Tensor:
    x = _floats(node)
    return node.op("MUL", [x, node.op("LOGISTIC", [_times(node, x, node.real("alpha", 1))])])


@importer("Mish")
def _mish(node: Node) -> Tensor:
    """x * tanh(log(1 + e)) with e = exp(x): x * n / (n + 2) with n = e * (e + 2).

    That is x, rounded, from 20 on, beyond which e is not followed.
    """
    x = _floats(node)
    power = node.op("EXP", [node.op("MINIMUM", [x, node.const(np.float32(_MISH_IS_X))])])
    n = node.op("MUL", [power, _plus(node, power, 2)])
    return node.op("MUL", [x, node.op("DIV", [n, _plus(node, n, 2)])])


@importer("ThresholdedRelu")
def _thresholded_relu(node: Node) -> Tensor:
    x, zero = _floats(node), node.const(np.float32(0))
    limit = node.const(np.float32(node.real("alpha", 1)))
    is_large = node.op("GREATER", [x, limit], dtype=DType.BOOL)
    return node.op("SELECT_V2", [is_large, x, zero], dtype=x.dtype)


@importer("Selu")
def _selu(node: Node) -> Tensor:
    both = _bent(node, _floats(node), 1, node.real("alpha", 1.67326319217681884765625))
    return _times(node, both, node.real("gamma", 1.05070102214813232421875))
