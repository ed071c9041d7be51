"""Linear models and machines of support vectors."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.importers.tabular.scores import (
    ML,
    best,
    both_classes,
    labels_of,
    numbers,
    one_of_two,
    reals,
    transformed,
    transformed_targets,
)
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import chosen, compared, scaled
from circlet.formats.onnx.table import importer
from circlet.ir import Tensor
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.words import counted


def _product(node: Node, x: Tensor, rows: np.ndarray, terms: np.ndarray) -> Tensor:
    """[rows, units]: products with rows of coefficients, and a term for each."""
    if x.shape[-1] is not None and x.shape[-1] != rows.shape[-1]:
        raise node.wrong("the coefficients do not fit the columns", f"{rows.shape}, {x.shape}")
    bias = node.const(terms) if terms.size else None
    attrs = FullyConnectedAttrs(keep_num_dims=True)
    return node.op("FULLY_CONNECTED", [x, node.const(rows), bias], attrs)


def _coefficients(node: Node, units: int, name: str = "coefficients") -> np.ndarray:
    given = reals(node, name)
    if units < 1 or not given.size or given.size % units:
        raise node.wrong(f"the {name} do not divide into {counted(units, 'row')}", f"{given.size}")
    return given.reshape(units, -1)


def _linear(node: Node, units: int) -> Tensor:
    terms = reals(node, "intercepts")
    if terms.size not in (0, units):
        raise node.wrong("there is not one intercept for each row of coefficients")
    return _product(node, numbers(node), _coefficients(node, units), terms)


@importer("LinearRegressor", domain=ML)
def _linear_regressor(node: Node) -> Tensor:
    count = node.whole("targets", 1)
    return transformed_targets(node, _linear(node, count), count)


@importer("LinearClassifier", domain=ML)
def _linear_classifier(node: Node) -> list[Tensor]:
    labels = labels_of(node, "classlabels_ints")
    units = reals(node, "intercepts").size or len(labels)
    scores = _linear(node, units)
    if units > 1:
        return [best(node, scores, labels), transformed(node, scores)]
    if len(labels) != 2:
        raise NotLoweredError("there is one score for more or less than two classes")
    label = one_of_two(node, scores, labels, 0)
    return [label, both_classes(node, transformed(node, scores))]


def _kernel(node: Node, x: Tensor, vectors: np.ndarray) -> Tensor:
    """How close rows are to support vectors: [rows, vectors]."""
    kind, given = node.text("kernel_type", "LINEAR"), reals(node, "kernel_params")
    gamma, offset, degree = (*given.tolist(), 0, 0, 0)[:3]
    if kind == "RBF":
        return _radial(node, x, vectors, gamma)
    product = _product(node, x, vectors, np.zeros(0, np.float32))
    if kind == "LINEAR":
        return product
    moved = node.op("ADD", [scaled(node, product, gamma), node.const(np.float32(offset))])
    if kind == "SIGMOID":
        return node.op("TANH", [moved])
    if kind == "POLY":
        return node.op("POW", [moved, node.const(np.float32(degree))])
    raise node.wrong("there is no such kernel", kind)


def _radial(node: Node, x: Tensor, vectors: np.ndarray, gamma: float) -> Tensor:
    """exp(-gamma * |x - vector|^2)."""
    apart = node.op(
        "SUB", [node.op("EXPAND_DIMS", [x, node.const(1, np.int32)]), node.const(vectors)]
    )
    last = node.const([2], np.int32)
    squares = node.op("SUM", [node.op("MUL", [apart, apart]), last], ReducerAttrs(False))
    return node.op("EXP", [scaled(node, squares, -gamma)])


@importer("SVMRegressor", domain=ML)
def _svm_regressor(node: Node) -> Tensor:
    count, offset = node.whole("n_supports"), reals(node, "rho")[:1]
    x = numbers(node)
    if count > 0:
        near = _kernel(node, x, _coefficients(node, count, "support_vectors"))
        made = _product(node, near, _coefficients(node, 1)[:, :count], offset)
    else:
        made = _product(node, x, _coefficients(node, 1), offset)
    if not node.whole("one_class"):
        return transformed_targets(node, made, 1)
    zero, one = node.const(np.float32(0)), np.float32(1)
    return chosen(node, compared(node, "GREATER", made, zero), node.const(one), node.const(-one))
