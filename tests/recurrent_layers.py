"""Networks of one of ONNX's recurrent layers with seeded weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from circlet.ir import DType, Graph, Tensor
from circlet.ir.builder import constant
from circlet.ops import get
from circlet.ops.build import builder
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from circlet.ops.onnx.recurrent import DYNAMIC_LSTM

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True)
class Layer:
    """One form of a layer; sizes are steps, batches, inputs, hidden."""

    kind: str
    sizes: tuple[int, int, int, int] = (4, 3, 6, 13)
    both: bool = False
    bias: bool = True
    lengths: tuple[int, ...] = ()
    first: bool = False
    looks: bool = False
    outputs: int = 3
    attrs: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def values(self) -> dict[str, object]:
        """The attributes."""
        given = {"direction": "bidirectional"} if self.both else {}
        return {**given, **self.attrs}


def layer_graph(layer: Layer) -> tuple[Graph, list[np.ndarray]]:
    """A graph of one layer over seeded constants, and its inputs."""
    random, made = np.random.default_rng(layer.sizes[3]), builder()
    steps, batches, inputs, hidden = layer.sizes
    directions, rows = 1 + layer.both, GATES[layer.kind] * hidden
    batch_first = layer.attrs.get("layout", 0)
    given: list[np.ndarray] = []

    def floats(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.4).astype(np.float32)

    def stored(*shape: int) -> Tensor:
        return constant("constant", floats(*shape))

    def asked(values: np.ndarray) -> Tensor:
        given.append(values)
        return made.input(f"in{len(given)}", DType.of(values), values.shape)

    data = floats(*((batches, steps) if batch_first else (steps, batches)), inputs)
    states = (batches, directions) if batch_first else (directions, batches)
    weights = [stored(directions, rows, inputs), stored(directions, rows, hidden)]
    operands: list[Tensor | None] = [asked(data), *weights]
    operands.append(stored(directions, 2 * rows) if layer.bias else None)
    operands.append(asked(np.array(layer.lengths, np.int32)) if layer.lengths else None)
    count = 2 if layer.kind == "LSTM" else 1
    operands += [asked(floats(*states, hidden)) if layer.first else None for _ in range(count)]
    operands += [stored(directions, 3 * hidden)] if layer.looks else []
    outputs = [Tensor(f"out{i}", DType.FLOAT32, ()) for i in range(min(layer.outputs, 1 + count))]
    attrs = OnnxAttrs(tuple(sorted(layer.values.items())), 14)
    made.op_many("CUSTOM", operands, outputs, attrs, custom_code=f"{PREFIX}{layer.kind}")
    (op,) = made.graph.ops
    for tensor, inferred in zip(outputs, get(op).infer(op), strict=False):
        tensor.shape = inferred.shape
    return made.output(*outputs).build(), given


def dynamic_graph(
    depth: int = 5,
    hidden: int = 20,
    lengths: tuple[int, ...] = (),
    *,
    dtype: str = "int8",
    zeros: tuple[int, ...] = (0,),
    coupled: bool = False,
) -> tuple[Graph, list[np.ndarray]]:
    """A graph of one DynamicQuantizeLSTM of both directions, and its inputs.

    It is over one sequence, or as many as there are lengths. Outputs have `zeros` in turn.
    """
    random, made = np.random.default_rng(hidden), builder()
    sizes = 4, len(lengths) or 1, depth
    x, rows = (random.standard_normal(sizes) * 0.4).astype(np.float32), 4 * hidden

    def stored(values: np.ndarray) -> Tensor:
        return made.constant(f"constant{len(made.graph.tensors)}", values)

    middle = 0 if dtype == "int8" else 128
    weights = [
        (random.integers(-99, 99, (2, n, rows)) + middle).astype(dtype) for n in (depth, hidden)
    ]
    bias = (random.standard_normal((2, 2 * rows)) * 0.4).astype(np.float32)
    scale = random.uniform(0.005, 0.01, (2, rows)).astype(np.float32)
    zero = np.resize(np.array(zeros, dtype), (2, rows))
    operands: list[Tensor | None] = [made.input("in1", DType.FLOAT32, x.shape)]
    ends = stored(np.array(lengths, np.int32)) if lengths else None
    operands += [*map(stored, weights), stored(bias), ends, None, None, None]
    operands += [stored(array) for array in (scale, zero, scale, zero)]
    outputs = [Tensor(f"out{i}", DType.FLOAT32, ()) for i in range(3)]
    values = {"direction": "bidirectional", "hidden_size": hidden}
    values |= {"input_forget": 1} if coupled else {}
    attrs = OnnxAttrs(tuple(sorted(values.items())), 1)
    code = DYNAMIC_LSTM.removeprefix("CUSTOM:")
    made.op_many("CUSTOM", operands, outputs, attrs, custom_code=code)
    (op,) = made.graph.ops
    for tensor, inferred in zip(outputs, get(op).infer(op), strict=True):
        tensor.shape = inferred.shape
    return made.output(*outputs).build(), [x]


DYNAMIC: dict[str, Callable[[], tuple[Graph, list[np.ndarray]]]] = {
    "one sequence": dynamic_graph,
    "sequences that end": lambda: dynamic_graph(lengths=(4, 1, 3)),
    "more sequences than a tile": lambda: dynamic_graph(7, 33, (4, 2, 4, 3, 1)),
    "unsigned weights": lambda: dynamic_graph(16, 18, dtype="uint8", zeros=(128,)),
    "one zero point that int8 does not absorb": lambda: dynamic_graph(zeros=(60,)),
    "zero points of outputs": lambda: dynamic_graph(6, 19, zeros=(0, -3, 5)),
    "zero points that int8 does not absorb": lambda: dynamic_graph(
        9, 24, (3, 4), dtype="uint8", zeros=(20, 128, 240)
    ),
    "coupled gates": lambda: dynamic_graph(coupled=True),
}
