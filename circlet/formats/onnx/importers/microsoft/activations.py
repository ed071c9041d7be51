"""Activations with what goes before them, and activations as attributes of other operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlet.formats.onnx.importers.quantisation import MICROSOFT
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import floats, scaled, split, standard
from circlet.formats.onnx.table import importer
from circlet.ir import Tensor

# By the names that attributes have: the kind, and its attributes in the order of the parameters.
_ACTIVATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Relu": ("Relu", ()),
    "Tanh": ("Tanh", ()),
    "Sigmoid": ("Sigmoid", ()),
    "LeakyRelu": ("LeakyRelu", ("alpha",)),
    "HardSigmoid": ("HardSigmoid", ("alpha", "beta")),
    "Elu": ("Elu", ("alpha",)),
    "Selu": ("Selu", ("alpha", "gamma")),
    "HardSwish": ("HardSwish", ()),
    "Gelu": ("Gelu", ()),
    "Softplus": ("Softplus", ()),
    "Softsign": ("Softsign", ()),
    "ThresholdedRelu": ("ThresholdedRelu", ("alpha",)),
}


def activated(node: Node, x: Tensor, name: str, parameters: Sequence[float]) -> Tensor:
    """`x` behind the activation that an attribute names; none where it is empty."""
    if not name:
        return x
    if name == "Clip":
        limits = [node.const(np.float32(value)) for value in parameters]
        return standard(node, "Clip", [x, *limits])
    if name not in _ACTIVATIONS:
        raise NotLoweredError(f"{name} is no activation that is known")
    kind, names = _ACTIVATIONS[name]
    given: dict[str, Any] = dict(zip(names, parameters, strict=False))
    return standard(node, kind, [x], **given)


@importer("Gelu", domain=MICROSOFT)
def _gelu(node: Node) -> Tensor:
    return standard(node, "Gelu", [node[0]])


@importer("BiasGelu", domain=MICROSOFT)
def _bias_gelu(node: Node) -> Tensor:
    return standard(node, "Gelu", [node.op("ADD", [node[0], node[1]])])


def _fast_gelu_of(node: Node, x: Tensor, bias: Tensor | None) -> Tensor:
    with_bias = x if bias is None else node.op("ADD", [x, bias])
    return standard(node, "Gelu", [with_bias], approximate="tanh")


@importer("FastGelu", domain=MICROSOFT)
def _fast_gelu(node: Node) -> Tensor:
    return _fast_gelu_of(node, node[0], node.optional(1))


@importer("GemmFastGelu", domain=MICROSOFT)
def _gemm_fast_gelu(node: Node) -> Tensor:
    return _fast_gelu_of(node, standard(node, "MatMul", [node[0], node[1]]), node.optional(2))


@importer("QuickGelu", domain=MICROSOFT)
def _quick_gelu(node: Node) -> Tensor:
    x = floats(node)
    return node.op("MUL", [x, node.op("LOGISTIC", [scaled(node, x, node.real("alpha", 1.702))])])


@importer("BiasAdd", domain=MICROSOFT)
def _bias_add(node: Node) -> Tensor:
    return node.op("ADD", [node.op("ADD", [node[0], node[1]]), node[2]])


@importer("BiasSplitGelu", domain=MICROSOFT)
def _bias_split_gelu(node: Node) -> Tensor:
    """The left half of the columns times the GELU of the right one."""
    x = node.op("ADD", [node[0], node[1]])
    columns = x.shape[-1] if x.shape else None
    if columns is None or columns % 2:
        raise NotLoweredError("the number of columns is open, or odd")
    left, right = split(node, x, -1, [columns // 2] * 2)
    return node.op("MUL", [left, standard(node, "Gelu", [right])])


@importer("BiasSoftmax", domain=MICROSOFT)
def _bias_softmax(node: Node) -> Tensor:
    x, rank = floats(node), node.rank(node[0])
    if node.axis(node.whole("axis", 1), rank) != rank - 1 or node.rank(node[1]) != rank:
        raise NotLoweredError("only the last axis is taken, and a bias of as many axes")
    return standard(node, "Softmax", [node.op("ADD", [x, node[1]])], axis=-1)
