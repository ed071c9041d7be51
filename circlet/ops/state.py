"""Variable tensors: values that operators update in place and that live on from run to run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from circlet.ir import Graph, Op, Tensor
from circlet.ops.record import find


def initial_byte(tensor: Tensor) -> int:
    """What every byte of a variable tensor starts as: its zero point, as LiteRT has it."""
    quant = tensor.quant
    if quant is None or quant.zero_point.size == 0:
        return 0
    return int(quant.zero_point[0]) & 0xFF


def initial_value(tensor: Tensor) -> np.ndarray:
    """A new array with the value of a variable tensor before the first run and after a reset."""
    value = np.empty(tensor.static_shape, tensor.dtype.numpy)
    value.view(np.uint8)[...] = initial_byte(tensor)
    return value


def variables(graph: Graph) -> list[Tensor]:
    """Variable tensors that ops use and no caller gives, each once."""
    given = set(graph.inputs)
    used = dict.fromkeys(t for op in graph.ops for t in op.inputs if t is not None)
    return [t for t in used if t.is_variable and t not in given]


def updated(op: Op) -> list[Tensor]:
    """The inputs that an op writes as well, in the order of its record's `updates`."""
    record = find(op.label)
    positions = () if record is None else record.updates
    return [tensor for tensor in map(op.input, positions) if tensor is not None]


def split_results(
    op: Op, results: Sequence[np.ndarray]
) -> tuple[Sequence[np.ndarray], list[tuple[Tensor, np.ndarray]]]:
    """What a record's `evaluate` gave: the outputs, and the new values of updated inputs."""
    count = len(op.outputs)
    return results[:count], list(zip(updated(op), results[count:], strict=True))


def successors(ops: Iterable[Op]) -> Iterator[tuple[Op, Op]]:
    """Pairs of ops that use one variable tensor and must keep their order."""
    last: dict[Tensor, Op] = {}
    for op in ops:
        for tensor in dict.fromkeys(t for t in op.inputs if t is not None and t.is_variable):
            if tensor in last:
                yield last[tensor], op
            last[tensor] = op
