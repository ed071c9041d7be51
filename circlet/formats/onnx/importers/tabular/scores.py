"""What models of tables do with their scores: transforms, and the labels of classes."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import chosen, compared, joined, standard
from circlet.ir import DType, Tensor

ML = "ai.onnx.ml"


def numbers(node: Node, index: int = 0) -> Tensor:
    """A table [rows, columns] as FLOAT32; a list is one row."""
    x = node[index]
    if x.dtype in (DType.STRING, DType.FLOAT64) or node.rank(x) not in (1, 2):
        raise NotLoweredError("only a table of numbers of up to 32 bits or integers is read")
    real = node.cast(x, DType.FLOAT32)
    return real if node.rank(x) == 2 else node.op("EXPAND_DIMS", [real, node.const(0, np.int32)])


def reals(node: Node, name: str) -> np.ndarray:
    """A list of floats, empty where it is not given."""
    return np.array(node.attributes.get(name) or [], np.float32)


def transformed(node: Node, x: Tensor) -> Tensor:
    """Scores behind the transform that an attribute names."""
    name = node.text("post_transform", "NONE")
    if name == "NONE":
        return x
    if name == "LOGISTIC":
        return node.op("LOGISTIC", [x])
    if name == "SOFTMAX":
        return standard(node, "Softmax", [x], axis=-1)
    raise NotLoweredError(f"{name} is a transform that is not known")


def transformed_targets(node: Node, x: Tensor, count: int) -> Tensor:
    """As `transformed`; of a single target, engines do not agree whether it is."""
    if count == 1 and node.text("post_transform", "NONE") != "NONE":
        raise NotLoweredError("ONNX Runtime leaves out what the standard does to a single target")
    return transformed(node, x)


def labels_of(node: Node, *names: str) -> np.ndarray:
    """The labels of the classes, which must be integers."""
    found = next((node.ints(name) for name in names if node.ints(name)), None)
    if found is None:
        raise NotLoweredError("labels of classes are texts")
    return np.array(found, np.int64)


def best(node: Node, scores: Tensor, labels: np.ndarray) -> Tensor:
    """The label of the greatest score of each row."""
    place = standard(node, "ArgMax", [scores], axis=-1, keepdims=0)
    return node.op("GATHER", [node.const(labels), place])


def one_of_two(node: Node, score: Tensor, labels: np.ndarray, limit: float) -> Tensor:
    """The second label where the only score [rows, 1] is above a limit, else the first."""
    above = compared(node, "GREATER", score, node.const(np.float32(limit)))
    made = chosen(node, above, node.const(labels[1]), node.const(labels[0]))
    return node.reshape(made, [-1])


def both_classes(node: Node, share: Tensor) -> Tensor:
    """Shares of two classes from that of the second."""
    other = node.op("SUB", [node.const(np.float32(1)), share])
    return joined(node, [other, share], -1)
