"""Small networks, and costs that are a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from circlet.errors import PlacementError
from circlet.formats import dumps
from circlet.ir import DType, Graph, Op
from circlet.ops.build import builder
from circlet.placement.problem import Estimate


def branches() -> bytes:
    """A stem, two branches of element-wise ops, and where they meet; float32."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 64))
    stem = b.op("RELU", [x], name="stem")
    left = b.op("TANH", [stem], name="left")
    right = b.op("LOGISTIC", [stem], name="right")
    right = b.op("EXP", [right], name="right again")
    joined = b.op("ADD", [left, right], name="join")
    return dumps(b.output(b.op("SOFTMAX", [joined], name="end")).model(), "tflite")


def dense(widths: tuple[int, ...] = (32, 64, 16)) -> bytes:
    """Fully connected layers with seeded weights; float32."""
    b, rng = builder(), np.random.default_rng(0)
    y = b.input("x", DType.FLOAT32, (1, widths[0]))
    for number, (inputs, outputs) in enumerate(pairwise(widths)):
        weights = b.constant(f"w{number}", rng.normal(size=(outputs, inputs)).astype(np.float32))
        bias = b.constant(f"b{number}", np.zeros(outputs, np.float32))
        y = b.op("FULLY_CONNECTED", [y, weights, bias], name=f"dense {number}")
    return dumps(b.output(b.op("TANH", [y], name="end")).model(), "tflite")


@dataclass
class TableCosts:
    """Costs by backend: each operator, a byte that is handed on, a partition.

    Attributes:
        operator: Nanoseconds of an operator.
        refused: Kinds that a backend does not take.
    """

    operator: dict[str, float]
    byte_ns: float = 1.0
    partition: float = 10.0
    refused: dict[str, set[str]] = field(default_factory=dict)

    def operator_ns(self, op: Op, backend: str, threads: int) -> Estimate:
        """The same for all kinds."""
        if op.label in self.refused.get(backend, set()):
            raise PlacementError.moved(backend, [(op.name, op.label, "refused by a table")])
        ns = self.operator[backend] / threads
        return Estimate(ns, ns, ns, measured=True)

    def operator_bytes(self, op: Op, backend: str, threads: int) -> int:
        """A hundred bytes."""
        return 100

    def transfer_ns(self, size: int, writer: str, reader: str) -> float:
        """By the byte."""
        return size * self.byte_ns

    def partition_ns(self, backend: str) -> float:
        """The same for all backends."""
        return self.partition


def ops_of(graph: Graph) -> tuple[Op, ...]:
    """The ops of a graph, in order."""
    return tuple(graph.ops)
