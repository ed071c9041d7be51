"""Elements of sequences: tensors that hold what lies at one place of an axis."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from circlet.errors import CircletError
from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.evaluate import evaluate_graph

_TAKING = frozenset({"UNPACK", "SPLIT", "SPLIT_V", "STRIDED_SLICE", "SLICE", "GATHER"})
_MOST_ELEMENTS = 1 << 20
_RANK = 3  # of sequences: images, steps and numbers


class Element(NamedTuple):
    """What lies at `place` of the time of a sequence, images by numbers.

    Attributes:
        source: The sequence, [time, images, numbers] or, batch first, [images, time, numbers].
    """

    source: Tensor
    is_batch_first: bool
    place: int


def elements_of(graph: Graph) -> dict[Tensor, Element]:
    """The tensors [images, numbers] of a graph that are elements of sequences.

    What an op takes is found by having it take numbers that say where they were.
    """
    found: dict[Tensor, Element] = {}
    whole: dict[Tensor, Element] = {}  # with the axis of time, or in other sizes
    for op in graph.ops:
        if op.kind in _TAKING:
            whole.update(_taken(op))
        elif op.kind == "RESHAPE" and op.inputs[0] in whole:
            whole[op.outputs[0]] = whole[op.inputs[0]]
        else:
            continue
        for tensor in op.outputs:
            element = whole.get(tensor)
            if element is not None and tensor.shape == _sizes(element):
                found[tensor] = element
    return found


def _sizes(element: Element) -> tuple[int, int]:
    sizes = element.source.static_shape
    return sizes[0 if element.is_batch_first else 1], sizes[2]


def _taken(op: Op) -> Iterator[tuple[Tensor, Element]]:
    """The outputs of an op that are elements of what it reads."""
    sources = [tensor for tensor in op.inputs if tensor is not None and not tensor.is_constant]
    if len(sources) != 1 or sources[0].dtype is not DType.FLOAT32:
        return
    (source,) = sources
    if len(source.shape) != _RANK or None in source.shape:
        return
    sizes = source.static_shape
    if not 0 < prod(sizes) <= _MOST_ELEMENTS:
        return
    counts = {prod(sizes) // size for size in sizes[:2]}
    if not any(tensor.elements in counts for tensor in op.outputs):
        return
    numbers = np.arange(prod(sizes), dtype=np.float32).reshape(sizes)
    try:
        made = evaluate_graph(Graph("element", [source], [*op.outputs], [op]), [numbers])
    except CircletError:
        return
    for tensor, values in zip(op.outputs, made, strict=True):
        if values.size == 0:
            continue
        image, step, _ = np.unravel_index(int(values.reshape(-1)[0]), sizes)
        for is_batch_first, place in ((False, int(image)), (True, int(step))):
            wanted = numbers[:, place] if is_batch_first else numbers[place]
            if values.size == wanted.size and (values.reshape(-1) == wanted.reshape(-1)).all():
                yield tensor, Element(source, is_batch_first, place)
                break
