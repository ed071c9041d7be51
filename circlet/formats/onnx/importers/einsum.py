"""Einsum of one or two operands: sums, transposes and a matrix product."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import standard
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.reduce import ReducerAttrs


@importer("Einsum")
def _einsum(node: Node) -> Tensor:
    terms, result = _terms(node)
    if any(tensor is None or tensor.dtype is not DType.FLOAT32 for tensor in node.inputs):
        raise NotLoweredError("only FLOAT32 is multiplied so")
    others = [set(result).union(*terms[:at], *terms[at + 1 :]) for at in range(len(terms))]
    parts = [_summed(node, node[at], term, others[at]) for at, term in enumerate(terms)]
    if len(parts) == 1:
        return _ordered(node, *parts[0], result)
    if len(parts) != 2:
        raise NotLoweredError("there are more than two operands")
    return _product(node, parts[0], parts[1], result)


def _terms(node: Node) -> tuple[list[str], str]:
    """The letters of each operand's axes, and of the result's."""
    given, arrow, result = node.text("equation").replace(" ", "").partition("->")
    terms = given.split(",")
    letters = "".join(terms)
    if "." in given or any(len(set(term)) != len(term) for term in terms):
        raise NotLoweredError("axes are left unnamed, or named twice")
    if not arrow:
        result = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    fits = len(terms) == len(node.inputs) and set(result) <= set(letters)
    if not fits or any(len(t) != node.rank(node[at]) for at, t in enumerate(terms)):
        raise node.wrong("the equation does not fit the operands", node.text("equation"))
    return terms, result


def _summed(node: Node, x: Tensor, term: str, kept: set[str]) -> tuple[Tensor, str]:
    """An operand less the axes that nothing else names."""
    axes = [at for at, letter in enumerate(term) if letter not in kept]
    if not axes:
        return x, term
    made = node.op("SUM", [x, node.const(axes, np.int32)], ReducerAttrs(False))
    return made, "".join(letter for letter in term if letter in kept)


def _ordered(node: Node, x: Tensor, term: str, wanted: str) -> Tensor:
    return node.transpose(x, [term.index(letter) for letter in wanted])


def _product(
    node: Node, left: tuple[Tensor, str], right: tuple[Tensor, str], result: str
) -> Tensor:
    """[batch, rows, depth] times [batch, depth, columns], each a list of axes."""
    shared = [letter for letter in left[1] if letter in right[1]]
    batch = "".join(letter for letter in shared if letter in result)
    depth = "".join(letter for letter in shared if letter not in result)
    rows = "".join(letter for letter in left[1] if letter not in shared)
    columns = "".join(letter for letter in right[1] if letter not in shared)
    sizes = _sizes(left) | _sizes(right)
    operands = [
        _ordered(node, *left, batch + rows + depth),
        _ordered(node, *right, batch + depth + columns),
    ]
    groups = ([batch, rows, depth], [batch, depth, columns])
    merged = [_merged(node, x, parts, sizes) for x, parts in zip(operands, groups, strict=True)]
    made = standard(node, "MatMul", merged)
    apart = [sizes[letter] for letter in batch + rows + columns]
    return _ordered(node, node.reshape(made, apart), batch + rows + columns, result)


def _sizes(part: tuple[Tensor, str]) -> dict[str, int]:
    tensor, term = part
    if None in tensor.shape:
        raise NotLoweredError("sizes are open")
    return dict(zip(term, (size or 0 for size in tensor.shape), strict=True))


def _merged(node: Node, x: Tensor, groups: list[str], sizes: dict[str, int]) -> Tensor:
    """One axis for each group of axes; none for a batch that there is not."""
    wanted = [prod(sizes[letter] for letter in group) for group in groups]
    shape = wanted if groups[0] else wanted[1:]
    return x if list(x.shape) == shape else node.reshape(x, shape)
