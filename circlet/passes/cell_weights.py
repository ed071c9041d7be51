"""The weights that the gates of cells are computed with, found by measuring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.errors import CircletError
from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.evaluate import evaluate_graph
from circlet.passes.cone import Reals
from circlet.passes.recurrent_cell import Cell, Producers, leading_to

TOLERANCE = 1e-5
_MOST_WORK = 1 << 32
_UNIT = np.float32(1 << 12)  # so that what is added to a weight rounds it less than it is rounded
_MAGNITUDES = (1.0, 8.0)


@dataclass(frozen=True)
class Weights:
    """What gates are as sums: gates one behind the other.

    Attributes:
        data: Of the input of the step, [gates * cells, inputs].
        recurrent: Of the output of the step before, [gates * cells, cells].
        bias: [gates * cells].
    """

    data: Reals
    recurrent: Reals
    bias: Reals


class CellGraphs:
    """The sums of a cell as graphs over the input of its step and what they read of the one before.

    Args:
        cell: The cell.
        made: The ops that make tensors.
        data, shown: The input of the step and the output before, both [images, elements].
    """

    def __init__(self, cell: Cell, made: Producers, data: Tensor, shown: Tensor) -> None:
        self.rows = data.shape[0] if len(data.shape) == 2 else None
        self._graphs = [_graph(made, cell.gates, data, shown)]
        if cell.candidate is not None and cell.reset is not None:
            self._graphs.append(_graph(made, (cell.candidate,), data, cell.reset))

    def weights(self) -> list[Weights] | None:
        """The weights of each graph; None where the gates are something else.

        What they are for units is compared with what they are for random numbers, where both must
        agree to 1e-5 of the largest value.
        """
        found = [_measured(graph) for graph in self._graphs]
        whole = [each for each in found if each is not None]
        return whole if len(whole) == len(found) and self.agree(whole) else None

    def agree(self, weights: Sequence[Weights]) -> bool:
        """Whether the gates are what some weights make them."""
        if len(weights) != len(self._graphs):
            return False
        pairs = zip(self._graphs, weights, strict=True)
        return all(graph is not None and _agree(graph, each) for graph, each in pairs)


def _graph(made: Producers, gates: Sequence[Tensor], data: Tensor, shown: Tensor) -> Graph | None:
    """The ops between what is given and gates; None where these read something else."""
    ops, leaves = leading_to(made, [*gates], frozenset({data, shown}))
    if not {data, shown}.issuperset(leaves):
        return None
    if any(t.dtype is not DType.FLOAT32 for op in ops for t in op.outputs):
        return None
    return Graph("cell", [data, shown], [*gates], _in_order(ops, {data, shown}))


def _in_order(ops: Sequence[Op], known: set[Tensor]) -> list[Op]:
    """A few ops, each behind those that it reads from."""
    done: list[Op] = []
    waiting = [*ops]
    while waiting:
        ready = [op for op in waiting if known.issuperset(_computed(op))]
        assert ready, "the graph has no cycles"
        known.update(tensor for op in ready for tensor in op.outputs)
        waiting = [op for op in waiting if op not in ready]
        done += ready
    return done


def _computed(op: Op) -> list[Tensor]:
    return [tensor for tensor in op.inputs if tensor is not None and not tensor.is_constant]


def _measured(graph: Graph | None) -> Weights | None:
    if graph is None:
        return None
    data, shown = graph.inputs
    if len(data.shape) != 2 or len(shown.shape) != 2 or data.shape[0] != shown.shape[0]:
        return None
    rows, inputs, cells = data.shape[0], data.shape[1], shown.shape[1]
    if not rows or not inputs or not cells:
        return None
    width, gates = inputs + cells, len(graph.outputs)
    if gates * cells * width**2 > _MOST_WORK:
        return None
    units = np.eye(width, dtype=np.float32) * _UNIT
    padded = np.concatenate([units, np.zeros((-len(units) % rows, width), np.float32)])
    base = _gates(graph, np.zeros((rows, width), np.float32))
    if base is None or base.shape != (rows, gates * cells) or (base != base[0]).any():
        return None
    found = [_gates(graph, part) for part in padded.reshape(-1, rows, width)]
    whole = [part for part in found if part is not None]
    if len(whole) < len(found):
        return None
    factors = (np.concatenate(whole)[:width] - base[0]) / _UNIT
    return Weights(
        np.ascontiguousarray(factors[:inputs].T),
        np.ascontiguousarray(factors[inputs:].T),
        base[0],
    )


def _gates(graph: Graph, values: Reals) -> Reals | None:
    """The gates side by side for inputs and outputs in one array; None where they fail."""
    inputs = graph.inputs[0].shape[1]
    try:
        made = evaluate_graph(graph, [values[:, :inputs].copy(), values[:, inputs:].copy()])
    except CircletError:
        return None
    if any(gate.ndim != 2 or len(gate) != len(values) for gate in made):
        return None
    return np.concatenate(made, 1).astype(np.float32)


def _agree(graph: Graph, weights: Weights) -> bool:
    data, shown = graph.inputs
    both = np.concatenate([weights.data, weights.recurrent], 1)
    if (*data.shape[1:], *shown.shape[1:]) != (weights.data.shape[1], weights.recurrent.shape[1]):
        return False
    random, rows = np.random.default_rng(0), data.shape[0] or 1
    for magnitude in _MAGNITUDES:
        values = (magnitude * random.normal(size=(rows, both.shape[1]))).astype(np.float32)
        wanted, got = values @ both.T + weights.bias, _gates(graph, values)
        if got is None or got.shape != wanted.shape or not _near(got, wanted):
            return False
    return True


def _near(got: Reals, wanted: Reals) -> bool:
    off, most = np.abs(got - wanted).max(initial=0), np.abs(wanted).max(initial=0)
    return bool(np.isfinite(got).all() and off <= TOLERANCE * max(1.0, float(most)))


@dataclass(frozen=True)
class LayerWeights:
    """The operands of ONNX's operators, of one direction.

    Attributes:
        kind: "LSTM", "GRU" or "RNN".
        data, recurrent: [gates * cells, inputs] and [gates * cells, cells].
        bias: Both halves, [2 * gates * cells].
        is_linear_before_reset: Of a GRU, whether its reset gate comes behind the weights.
    """

    kind: str
    data: Reals
    recurrent: Reals
    bias: Reals
    is_linear_before_reset: bool = False


def layer_weights(cell: Cell, found: Sequence[Weights]) -> LayerWeights | None:
    """The operands for what was measured; None where a GRU's candidate mixes what it reads."""
    first = found[0]
    if len(found) == 2:
        data, recurrent, bias = (
            np.concatenate([getattr(each, name) for each in found])
            for name in ("data", "recurrent", "bias")
        )
        return LayerWeights(cell.kind, data, recurrent, _halves(bias))
    if cell.kind != "GRU":
        return LayerWeights(cell.kind, first.data, first.recurrent, _halves(first.bias))
    cells = first.recurrent.shape[1]
    (data, of_state), (_, of_last) = (
        np.split(first.data, [3 * cells]),
        np.split(first.bias, [3 * cells]),
    )
    if of_state.any() or first.recurrent[2 * cells : 3 * cells].any():
        return None
    recurrent = np.delete(first.recurrent, slice(2 * cells, 3 * cells), 0)
    halves = [first.bias[: 3 * cells], np.zeros(2 * cells, np.float32), of_last]
    return LayerWeights("GRU", data, recurrent, np.concatenate(halves), True)


def _halves(bias: Reals) -> Reals:
    return np.concatenate([bias, np.zeros_like(bias)])
