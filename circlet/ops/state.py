"""Variable tensors: values that operators update in place and that live on from run to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from circlet.ir import Graph, Op, Tensor
from circlet.ops.opdef import find


def initial_bytes(tensor: Tensor) -> bytes:
    """What a variable tensor starts as: one byte for all of it where that is enough.

    Without a stored start every byte is the zero point, as LiteRT has it.
    """
    if tensor.initial is not None:
        data = tensor.initial.tobytes()
        return data[:1] if data == data[:1] * len(data) else data
    quant = tensor.quant
    zero = int(quant.zero_point[0]) if quant is not None and quant.zero_point.size else 0
    return bytes([zero & 0xFF])


def initial_value(tensor: Tensor) -> np.ndarray:
    """A new array with the value of a variable tensor before the first run and after a reset."""
    value = np.empty(tensor.static_shape, tensor.dtype.numpy)
    value.reshape(-1).view(np.uint8)[...] = np.frombuffer(initial_bytes(tensor), np.uint8)
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


def continued_inputs(graph: Graph) -> dict[Tensor, Tensor]:
    """The inputs that outputs continue, as caches do from call to call, by those outputs.

    Both may be one array: nothing reads such an input but the op that makes the output of it.
    """
    readers = Counter(t for op in graph.ops for t in dict.fromkeys(op.inputs) if t is not None)
    found: dict[Tensor, Tensor] = {}
    for op in graph.ops:
        record = find(op.label)
        for result, source in () if record is None else record.continues:
            given, made = op.input(source), op.outputs[result : result + 1]
            if given in graph.inputs and made and made[0] in graph.outputs and given is not None:
                alone = readers[given] == 1 == op.inputs.count(given) and given not in graph.outputs
                if alone and given.shape == made[0].shape and None not in given.shape:
                    found[made[0]] = given
    return found


def successors(ops: Iterable[Op]) -> Iterator[tuple[Op, Op]]:
    """Pairs of ops that use one variable tensor and must keep their order."""
    last: dict[Tensor, Op] = {}
    for op in ops:
        for tensor in dict.fromkeys(t for t in op.inputs if t is not None and t.is_variable):
            if tensor in last:
                yield last[tensor], op
            last[tensor] = op
