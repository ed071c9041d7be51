"""Recurrent networks of one operator with seeded weights, and their runs step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ops.build import builder
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.lstm_operands import GATES, Gate, OneLstmAttrs, SequenceLstmAttrs
from circlet.ops.state import initial_value, variables
from circlet.ops.svdf import SvdfAttrs

per_tensor = Quantization.per_tensor


@dataclass(frozen=True)
class Lstm:
    """One form of an LSTM; `look` means peepholes."""

    sizes: tuple[int, int, int, int, int] = (1, 5, 7, 20, 20)
    stored: bool = False
    has_input: bool = True
    look: bool = False
    norm: bool = False
    time_major: bool = False
    activation: str = "TANH"
    clips: tuple[float, float] = (0.0, 0.0)
    sequence: bool = True
    cell_exponent: int = -11
    weights: DType = DType.FLOAT32
    asymmetric: bool = False

    @property
    def projects(self) -> bool:
        """Whether outputs are projected cells."""
        return self.sizes[3] != self.sizes[4]

    @property
    def label(self) -> str:
        """Short name of the form."""
        words = [name for name in ("has_input", "look", "norm", "time_major") if vars(self)[name]]
        sizes = "x".join(map(str, self.sizes))
        return "-".join([sizes, *words, self.activation, str(self.clips[0])])

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Sizes of the input."""
        batch, steps, inputs = self.sizes[:3]
        if not self.sequence:
            return (batch, inputs)
        return (steps, batch, inputs) if self.time_major else (batch, steps, inputs)


class _Operands:
    """Makes the operands of an LSTM in the order of their positions."""

    def __init__(self, form: Lstm, seed: int) -> None:
        self.form = form
        self.builder = builder()
        self.random = np.random.default_rng(seed)
        self.tensors: list[Tensor | None] = [None] * 24

    def constant(self, position: int, shape: Sequence[int], kind: str) -> None:
        narrow = self.form.weights is not DType.FLOAT32 and (
            kind == "weights" or position in (9, 10, 11)
        )
        if narrow:
            values, quant = self._hybrid(shape)
        else:
            values, quant = self._stored(shape, kind) if self.form.stored else self._real(shape)
        self.tensors[position] = self.builder.constant(f"operand{position}", values, quant)

    def variable(self, position: int, shape: tuple[int, ...], quant: Quantization) -> None:
        dtype = (DType.INT8, DType.INT16)[position - 18] if self.form.stored else DType.FLOAT32
        given = quant if self.form.stored else None
        self.tensors[position] = self.builder.variable(f"state{position}", dtype, shape, given)

    def _hybrid(self, shape: Sequence[int]) -> tuple[np.ndarray, Quantization | None]:
        values = self.random.integers(-127, 128, shape, np.int8)
        return values.view(self.form.weights.numpy), per_tensor(0.01)

    def _real(self, shape: Sequence[int]) -> tuple[np.ndarray, Quantization | None]:
        return (self.random.standard_normal(shape) * 0.4).astype(np.float32), None

    def _stored(self, shape: Sequence[int], kind: str) -> tuple[np.ndarray, Quantization | None]:
        if kind == "weights":
            return self.random.integers(-127, 128, shape, np.int8), per_tensor(0.01)
        if kind == "bias":
            return self.random.integers(-9000, 9000, shape, np.int32), per_tensor(1e-4)
        return self.random.integers(-32767, 32768, shape, np.int16), per_tensor(3e-5)


def lstm_graph(form: Lstm, seed: int = 0) -> Graph:
    """A graph of one LSTM."""
    made = _Operands(form, seed)
    batch, _, _, cells, outputs = form.sizes
    state = per_tensor(0.0078, -3)
    made.tensors[0] = made.builder.input(
        "x",
        DType.INT8 if form.stored else DType.FLOAT32,
        form.data_shape,
        per_tensor(0.05, 4) if form.stored else None,
    )
    for gate in GATES[0 if form.has_input else 1 :]:
        _gate(made, gate)
    if form.projects:
        made.constant(16, (outputs, cells), "weights")
        made.constant(17, (outputs,), "bias")
    made.variable(18, (batch, outputs), state)
    made.variable(19, (batch, cells), per_tensor(2.0**form.cell_exponent))
    kind = "UNIDIRECTIONAL_SEQUENCE_LSTM" if form.sequence else "LSTM"
    quant = state if form.stored else None
    given = made.tensors if form.norm else made.tensors[:20]
    result = made.builder.op(kind, given, _attrs(form), name="y", quant=quant)
    graph = made.builder.output(result).build()
    if form.stored:
        _add_intermediates(graph, form)
    return graph


def _gate(made: _Operands, gate: Gate) -> None:
    form = made.form
    _, _, inputs, cells, outputs = form.sizes
    made.constant(gate.weights, (cells, inputs), "weights")
    made.constant(gate.recurrent, (cells, outputs), "weights")
    made.constant(gate.bias, (cells,), "bias")
    if form.look and gate.peephole is not None:
        made.constant(gate.peephole, (cells,), "look")
    if form.norm:
        made.constant(gate.norm, (cells,), "look")


def _attrs(form: Lstm) -> object:
    if form.sequence:
        return SequenceLstmAttrs(form.activation, *form.clips, form.asymmetric, form.time_major)
    return OneLstmAttrs(form.activation, *form.clips, form.asymmetric)


def _add_intermediates(graph: Graph, form: Lstm) -> None:
    hidden = per_tensor(0.0079, 5) if form.projects else per_tensor(0.0078, -3)
    quants = [per_tensor(2.0**-12)] * 4
    kinds = [DType.INT16] * 4 + [DType.INT8]
    for index, (dtype, quant) in enumerate(zip(kinds, [*quants, hidden], strict=True)):
        tensor = graph.add_tensor(Tensor(f"intermediate{index}", dtype, (0,), quant))
        graph.ops[0].intermediates.append(tensor)


def svdf_graph(
    sizes: tuple[int, int, int, int, int],
    dtype: DType,
    *,
    bias: bool = True,
    activation: str = "RELU",
    seed: int = 0,
    weights: DType = DType.FLOAT32,
    asymmetric: bool = False,
) -> Graph:
    """A graph of one SVDF; sizes are batches, inputs, units, rank, memory; dtype the state's.

    A state of floats may have `weights` of 8 bits.
    """
    batches, inputs, units, rank, memory = sizes
    random, made = np.random.default_rng(seed), builder()
    filters, real = units * rank, dtype is DType.FLOAT32

    def constant(name: str, shape: tuple[int, ...], kind: DType, scale: float) -> Tensor:
        if real and weights is not DType.FLOAT32 and name != "bias":
            narrow = random.integers(-127, 128, shape, np.int8).view(weights.numpy)
            return made.constant(name, narrow, per_tensor(0.01))
        if real:
            values = (random.standard_normal(shape) * 0.4).astype(np.float32)
            return made.constant(name, values)
        most = np.iinfo(kind.numpy.name).max if kind is not DType.INT32 else 20000
        values = random.integers(-most, most, shape, kind.numpy)
        return made.constant(name, values, per_tensor(scale))

    data = made.input(
        "x", dtype if real else DType.INT8, (batches, inputs), None if real else per_tensor(0.1, -5)
    )
    features = constant("features", (filters, inputs), DType.INT8, 0.01)
    time = constant("time", (filters, memory), dtype, 0.01 if dtype is DType.INT8 else 4e-5)
    added = constant("bias", (units,), DType.INT32, 1e-4) if bias else None
    zero, scale = (9, 0.3) if dtype is DType.INT8 else (0, 0.002)
    past = None if real else per_tensor(scale, zero)
    state = made.variable("state", dtype, (batches, memory * filters), past)
    inputs_of = [data, features, time, added, state]
    quant = None if real else per_tensor(0.05, -128)
    attrs = SvdfAttrs(rank, activation, asymmetric)
    result = made.op("SVDF", inputs_of, attrs, name="y", quant=quant)
    return made.output(result).build()


def side_by_side(graphs: Sequence[Graph]) -> Graph:
    """One graph of all, so that a table of forms costs one compilation."""
    whole = Graph()
    for graph in graphs:
        whole.inputs += graph.inputs
        whole.outputs += graph.outputs
        whole.ops += graph.ops
        whole.tensors += graph.tensors
    return whole


def steps_for(graph: Graph, count: int, seed: int = 1) -> list[list[np.ndarray]]:
    """Seeded inputs of several runs."""
    random = np.random.default_rng(seed)
    return [[_values(tensor, random) for tensor in graph.inputs] for _ in range(count)]


def _values(tensor: Tensor, random: np.random.Generator) -> np.ndarray:
    if tensor.dtype is DType.FLOAT32:
        return random.standard_normal(tensor.static_shape).astype(np.float32)
    return random.integers(-128, 128, tensor.static_shape, np.int8)


def run_records(graph: Graph, steps: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    """Per run the outputs and the variable tensors after it, by the records."""
    state = [initial_value(tensor) for tensor in variables(graph)]
    whole = Graph("", [*graph.inputs, *variables(graph)], graph.outputs, graph.ops, graph.tensors)
    rows = []
    for step in steps:
        outputs = evaluate_graph(whole, [*step, *state])
        rows.append([*outputs, *(array.copy() for array in state)])
    return rows
