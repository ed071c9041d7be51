"""LSTM cells that are spelled out, and the weights that their gates are computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.errors import CircletError
from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.evaluate import evaluate_graph
from circlet.passes.cone import Reals
from circlet.passes.match import is_plain

TOLERANCE = 1e-5
_AFFINE = frozenset(
    {
        *("FULLY_CONNECTED", "BATCH_MATMUL", "ADD", "SUB", "CONCATENATION", "RESHAPE"),
        *("SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V", "UNPACK", "TRANSPOSE"),
    }
)
_MOST_OPS, _MOST_WORK = 32, 1 << 32
_UNIT = np.float32(1 << 12)  # so that what is added to a weight rounds it less than it is rounded
_MAGNITUDES = (1.0, 8.0)
Producers = dict[Tensor, Op]


@dataclass(frozen=True)
class Cell:
    """A step `i, o, f = logistic, g = tanh; c = f * c + i * g; h = o * tanh(c)` in a graph.

    Attributes:
        gates: What the functions of i, o, f and g are computed of.
        state: The cell state before the step.
    """

    gates: tuple[Tensor, Tensor, Tensor, Tensor]
    state: Tensor


@dataclass(frozen=True)
class Weights:
    """What gates are as sums: gates i, o, f and g, one behind the other.

    Attributes:
        data: Of the input of the step, [4 * cells, inputs].
        recurrent: Of the output of the step before, [4 * cells, cells].
        bias: [4 * cells].
    """

    data: Reals
    recurrent: Reals
    bias: Reals


def cell_of(made: Producers, shown: Tensor, state: Tensor) -> Cell | None:
    """The cell whose step computes an output and a cell state, by the ops that make tensors."""
    for output_gate, value in _gated(shown, made):
        if _argument(value, "TANH", made) is not state:
            continue
        total = made.get(state)
        if total is None or not is_plain(total, "ADD"):
            return None
        for kept, new in (total.inputs, total.inputs[::-1]):
            for forget_gate, before in _gated(kept, made):
                for input_gate, candidate in _gated(new, made):
                    cell_gate = _argument(candidate, "TANH", made)
                    if cell_gate is not None:
                        gates = input_gate, output_gate, forget_gate, cell_gate
                        return Cell(gates, before)
    return None


def _gated(tensor: Tensor | None, made: Producers) -> list[tuple[Tensor, Tensor]]:
    """What a LOGISTIC reads, and what it is multiplied with, where a tensor is such a product."""
    op = None if tensor is None else made.get(tensor)
    if op is None or not is_plain(op, "MUL"):
        return []
    pairs = (op.inputs, op.inputs[::-1])
    found = [(_argument(first, "LOGISTIC", made), second) for first, second in pairs]
    return [(gate, value) for gate, value in found if gate is not None and value is not None]


def _argument(tensor: Tensor | None, kind: str, made: Producers) -> Tensor | None:
    op = None if tensor is None else made.get(tensor)
    return op.inputs[0] if op is not None and op.kind == kind else None


def weights_of(cell: Cell, made: Producers, data: Tensor, shown: Tensor) -> Weights | None:
    """The weights of a cell's gates over an input and an output before, both [images, elements].

    None where the gates are something else: what they are for units is compared with what they are
    for random numbers, where both must agree to 1e-5 of the largest value.
    """
    ops = _between(cell, made, {data, shown})
    if ops is None or len(data.shape) != 2 or len(shown.shape) != 2:
        return None
    rows, inputs, cells = data.shape[0], data.shape[1], shown.shape[1]
    if rows is None or not inputs or not cells or shown.shape[0] != rows:
        return None
    if 4 * cells * (inputs + cells) ** 2 > _MOST_WORK:
        return None
    graph = Graph("cell", [data, shown], [*cell.gates], ops)
    return _measured(graph, rows, inputs, cells)


def _between(cell: Cell, made: Producers, given: set[Tensor]) -> list[Op] | None:
    """The ops that make gates of what is given, in order; None where they read something else."""
    order: dict[Op, None] = {}
    waiting: list[Tensor | None] = [*cell.gates]
    while waiting:
        tensor = waiting.pop()
        if tensor is None or tensor in given or tensor.is_constant:
            continue
        op = made.get(tensor)
        is_float = tensor.dtype is DType.FLOAT32
        if op is None or op.kind not in _AFFINE or not is_float or len(order) > _MOST_OPS:
            return None
        if op not in order:
            order[op] = None
            waiting += op.inputs
    places = {op: place for place, op in enumerate(dict.fromkeys(made.values()))}
    return sorted(order, key=places.__getitem__)


def _measured(graph: Graph, rows: int, inputs: int, cells: int) -> Weights | None:
    units = np.eye(inputs + cells, dtype=np.float32) * _UNIT
    padded = np.concatenate([units, np.zeros((-len(units) % rows, inputs + cells), np.float32)])
    zeros = np.zeros((rows, inputs + cells), np.float32)
    base = _gates(graph, zeros, inputs)
    if base is None or base.shape != (rows, 4 * cells) or (base != base[0]).any():
        return None
    found = [_gates(graph, part, inputs) for part in padded.reshape(-1, rows, inputs + cells)]
    if any(part is None for part in found):
        return None
    joined = np.concatenate([part for part in found if part is not None])[: len(units)]
    factors = (joined - base[0]) / _UNIT
    made = Weights(
        np.ascontiguousarray(factors[:inputs].T),
        np.ascontiguousarray(factors[inputs:].T),
        base[0],
    )
    return made if _agree(graph, made, rows) else None


def _gates(graph: Graph, values: Reals, inputs: int) -> Reals | None:
    """The gates side by side for inputs and outputs in one array; None where they fail."""
    try:
        made = evaluate_graph(graph, [values[:, :inputs].copy(), values[:, inputs:].copy()])
    except CircletError:
        return None
    if any(gate.ndim != 2 or len(gate) != len(values) for gate in made):
        return None
    return np.concatenate(made, 1).astype(np.float32)


def _agree(graph: Graph, weights: Weights, rows: int) -> bool:
    random, inputs = np.random.default_rng(0), weights.data.shape[1]
    both = np.concatenate([weights.data, weights.recurrent], 1)
    for magnitude in _MAGNITUDES:
        values = (magnitude * random.normal(size=(rows, both.shape[1]))).astype(np.float32)
        wanted, got = values @ both.T + weights.bias, _gates(graph, values, inputs)
        if got is None or not _near(got, wanted):
            return False
    return True


def _near(got: Reals, wanted: Reals) -> bool:
    off, most = np.abs(got - wanted).max(initial=0), np.abs(wanted).max(initial=0)
    return bool(np.isfinite(got).all() and off <= TOLERANCE * max(1.0, float(most)))


def onnx_operands(weights: Sequence[Weights]) -> tuple[Reals, Reals, Reals]:
    """Weights as ONNX's LSTM has them, of each direction: W, R, and B with both biases."""
    bias = np.stack([each.bias for each in weights])
    return (
        np.stack([each.data for each in weights]),
        np.stack([each.recurrent for each in weights]),
        np.concatenate([bias, np.zeros_like(bias)], 1),
    )
