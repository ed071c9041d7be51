"""Whether an output has a score for each class, as far as the graph tells.

A list of numbers says nothing of itself: it may be classes, coordinates, an embedding or a
reconstruction. Scores are what a softmax or a logistic makes, in any type, what is called so, and,
of networks over pictures, what a linear layer gives for just as many classes as public data sets
have: classifiers are often exported without their softmax.
"""

from __future__ import annotations

import re
from math import prod

from circlet.formats.pixels import picture_layout
from circlet.ir import Graph, Op, Tensor

_MOVES = frozenset(
    (
        *("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "CAST", "DEQUANTIZE", "QUANTIZE"),
        *("CUSTOM:onnx.DequantizeLinear", "CUSTOM:onnx.QuantizeLinear"),
    )
)
_NORMALISED = frozenset(("SOFTMAX", "LOG_SOFTMAX", "CUSTOM:onnx.Softmax"))
_BOUNDED = frozenset(("LOGISTIC", "STABLEHLO_LOGISTIC", "CUSTOM:onnx.Sigmoid"))
_LINEAR = frozenset(("FULLY_CONNECTED", "BATCH_MATMUL", "CONV_2D"))
_NAMES = re.compile(r"prob|logit|softmax|score", re.IGNORECASE)
# MNIST and CIFAR-10, CIFAR-100, Tiny ImageNet, Places, ImageNet (with a background, too), its 21k.
_DATA_SETS = frozenset((10, 100, 200, 365, 1000, 1001, 21841, 21843))
_MOST_STEPS = 12


def gives_scores(graph: Graph, output: Tensor) -> bool:
    """Whether an output is likely to have a score for each class, if it is a list at all.

    As many bounded numbers as an input has elements are a mask of it, not classes.
    """
    maker = _maker(graph, output)
    if maker is None:
        return False
    if maker.label in _NORMALISED or _NAMES.search(output.name):
        return True
    count = prod(output.static_shape)
    if maker.label in _BOUNDED:
        return all(prod(tensor.static_shape) != count for tensor in graph.inputs)
    is_linear = maker.kind in _LINEAR and getattr(maker.attrs, "activation", "NONE") == "NONE"
    takes_picture = any(picture_layout(tensor.static_shape) for tensor in graph.inputs)
    return is_linear and takes_picture and count in _DATA_SETS


def _maker(graph: Graph, output: Tensor) -> Op | None:
    """The op that computes an output, behind moves and biases."""
    producers = graph.producers()
    for _ in range(_MOST_STEPS):
        op = producers.get(output)
        source = None if op is None else op.input(0)
        is_bias = op is not None and op.kind == "ADD" and _has_constant(op)
        if op is None or source is None or not (op.label in _MOVES or is_bias):
            return op
        output = next((t for t in op.inputs if t is not None and not t.is_constant), source)
    return None


def _has_constant(op: Op) -> bool:
    return any(tensor is not None and tensor.is_constant for tensor in op.inputs)
