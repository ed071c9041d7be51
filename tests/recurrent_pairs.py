"""Networks of one plain or bidirectional recurrent layer of LiteRT's kinds, and of Circle's GRU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ops import get
from circlet.ops.build import builder
from circlet.ops.gru import GruAttrs
from circlet.ops.lstm_bidirectional import BidirectionalLstmAttrs
from circlet.ops.rnn import BidirectionalRnnAttrs, RnnAttrs, SequenceRnnAttrs

RNN, SEQUENCE_RNN = "RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"
TWO_RNN, TWO_LSTM = "BIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_LSTM"


@dataclass(frozen=True)
class Pair:
    """One form of a layer; sizes are batches, steps, inputs, units forwards and backwards.

    `aux` is "" without auxiliary input, "weights" with weights of its own, and "input" where the
    backward direction reads it.
    """

    kind: str = SEQUENCE_RNN
    sizes: tuple[int, int, int, int, int] = (2, 3, 5, 7, 4)
    activation: str = "TANH"
    time_major: bool = False
    merge: bool = False
    aux: str = ""
    weights: DType = DType.FLOAT32
    asymmetric: bool = False
    has_input: bool = True
    look: bool = False
    projection: int = 0
    clips: tuple[float, float] = (0.0, 0.0)

    @property
    def label(self) -> str:
        """Short name of the form."""
        flags = [n for n in ("time_major", "merge", "asymmetric", "look") if vars(self)[n]]
        size = "x".join(map(str, self.sizes))
        words = [self.kind.lower(), self.activation, self.weights.name, self.aux, *flags, size]
        return "-".join(filter(None, words))


class _Made:
    def __init__(self, form: Pair, seed: int) -> None:
        self.form, self.builder = form, builder()
        self.random = np.random.default_rng(seed)

    def floats(self, *shape: int) -> Tensor:
        # Wider rows are smaller: runs of large states would make much of last bits.
        scale = min(0.4, 1.2 / shape[-1] ** 0.5)
        values = (self.random.standard_normal(shape) * scale).astype(np.float32)
        return self.builder.constant(f"bias{len(self.builder.graph.tensors)}", values)

    def weights(self, *shape: int) -> Tensor:
        if self.form.weights is DType.FLOAT32:
            return self.floats(*shape)
        values = self.random.integers(-127, 128, shape, np.int8).view(self.form.weights.numpy)
        name = f"weights{len(self.builder.graph.tensors)}"
        return self.builder.constant(name, values, Quantization.per_tensor(0.004))

    def state(self, *shape: int) -> Tensor:
        name = f"state{len(self.builder.graph.tensors)}"
        return self.builder.variable(name, DType.FLOAT32, shape, None)

    def data(self, name: str, width: int) -> Tensor:
        batch, steps = self.form.sizes[:2]
        outer = (steps, batch) if self.form.time_major else (batch, steps)
        shape = (batch, width) if self.form.kind == RNN else (*outer, width)
        return self.builder.input(name, DType.FLOAT32, shape)


def pair_graph(form: Pair, seed: int = 0) -> Graph:
    """A graph of one layer over seeded constants."""
    made = _Made(form, seed)
    operands = _lstm(made) if form.kind == TWO_LSTM else _rnn(made)
    count = 2 if form.kind in (TWO_RNN, TWO_LSTM) and not form.merge else 1
    results = [Tensor(f"out{index}", DType.FLOAT32, ()) for index in range(count)]
    made.builder.op_many(form.kind, operands, results, _attrs(form))
    op = made.builder.graph.ops[0]
    for tensor, inferred in zip(results, get(op).infer(op), strict=True):
        tensor.shape = inferred.shape
    return made.builder.output(*results).build()


def _attrs(form: Pair) -> object:
    plain = form.activation, form.asymmetric
    if form.kind == RNN:
        return RnnAttrs(*plain)
    if form.kind == SEQUENCE_RNN:
        return SequenceRnnAttrs(*plain, form.time_major)
    if form.kind == TWO_RNN:
        return BidirectionalRnnAttrs(*plain, form.time_major, form.merge)
    return BidirectionalLstmAttrs(
        form.activation, *form.clips, form.asymmetric, form.merge, form.time_major
    )


def _aux_width(form: Pair) -> int:
    """LiteRT steps through other auxiliary inputs by the width of the input: past their ends."""
    is_right = form.kind == TWO_RNN and form.weights is DType.FLOAT32 and not form.time_major
    return form.sizes[2] + (is_right and form.aux == "weights")


def _rnn(made: _Made) -> list[Tensor | None]:
    form = made.form
    batch, _, inputs, *both = form.sizes
    units = both if form.kind == TWO_RNN else both[:1]
    operands: list[Tensor | None] = [made.data("x", inputs)]
    for count in units:
        weights = made.weights(count, inputs), made.weights(count, count)
        operands += [*weights, made.floats(count), made.state(batch, count)]
    if form.kind != TWO_RNN:
        return operands
    width = _aux_width(form)
    operands.append(made.data("aux", width) if form.aux else None)
    for count in units:
        operands.append(made.weights(count, width) if form.aux == "weights" else None)
    return operands


def _lstm(made: _Made) -> list[Tensor | None]:
    form = made.form
    batch, _, inputs, *both = form.sizes
    operands: list[Tensor | None] = [made.data("x", inputs)]
    for cells in both:
        operands += _direction(made, cells, form.projection or cells)
    for cells in both:
        operands += [made.state(batch, form.projection or cells), made.state(batch, cells)]
    width, gates = _aux_width(form), 4
    operands.append(made.data("aux", width) if form.aux else None)
    for cells in both:
        own: list[Tensor | None] = [None] * gates
        for gate in range(0 if form.has_input else 1, gates if form.aux == "weights" else 0):
            own[gate] = made.weights(cells, width)
        operands += own
    return operands


def _direction(made: _Made, cells: int, outputs: int) -> list[Tensor | None]:
    form, first = made.form, 0 if made.form.has_input else 1
    inputs = form.sizes[2]

    def gates(count: int, make: str, *shape: int) -> list[Tensor | None]:
        used = range(first if count == 4 else 0, count)
        return [getattr(made, make)(cells, *shape) if i in used else None for i in range(count)]

    looks: list[Tensor | None] = [None] * 3
    if form.look:
        looks = [made.weights(cells) if i >= first else None for i in range(3)]
    projected: list[Tensor | None] = [None, None]
    if form.projection:
        projected = [made.weights(outputs, cells), made.floats(outputs)]
    products = [*gates(4, "weights", inputs), *gates(4, "weights", outputs)]
    return [*products, *looks, *gates(4, "floats"), *projected]


def gru_graph(sizes: tuple[int, int, int, int], *, bias: bool = True, flat: bool = False) -> Graph:
    """A graph of Circle's GRU; sizes are steps, batches, inputs, hidden."""
    steps, batch, inputs, hidden = sizes
    random, made = np.random.default_rng(hidden), builder()

    def stored(name: str, *shape: int) -> Tensor:
        return made.constant(name, (random.standard_normal(shape) * 0.4).astype(np.float32))

    x = made.input("x", DType.FLOAT32, (steps, batch, inputs))
    operands = [
        x,
        stored("w", 3 * hidden, inputs),
        stored("b", 3 * hidden) if bias else None,
        stored("r", 3 * hidden, hidden),
        stored("c", 3 * hidden) if bias else None,
        stored("h", batch, hidden) if bias else made.input("h", DType.FLOAT32, (batch, hidden)),
    ]
    shape = (batch, hidden) if flat else (1, batch, hidden)
    result = made.op("GRU", operands, GruAttrs(), name="y", dtype=DType.FLOAT32, shape=shape)
    return made.output(result).build()
