from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

import numpy as np
import pytest

from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.activation import LeakyReluAttrs
from circlet.ops.build import builder
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.smooth import GeluAttrs
from tests.passes.harness import rewritten

F32 = DType.FLOAT32


class Spelled:
    """Float arithmetic over tensors, as networks spell it."""

    def __init__(self) -> None:
        self.b: Builder = builder()
        self.x = self.b.op("EXP", [self.b.input("input", F32, (2, 3, 5))], name="before")

    def number(self, *values: float) -> Tensor:
        data = np.array(values if len(values) > 1 else values[0], np.float32)
        return self.b.constant("number", data)

    def __call__(self, kind: str, *operands: Tensor | float) -> Tensor:
        inputs = [t if isinstance(t, Tensor) else self.number(t) for t in operands]
        return self.b.op(kind, inputs)

    def erf(self, x: Tensor) -> Tensor:
        return self.b.op("CUSTOM", [x], OnnxAttrs(), custom_code="onnx.Erf", shape=x.shape)


def gelu_halved_last(s: Spelled) -> Tensor:
    return s("MUL", s("MUL", s.x, s("ADD", s.erf(s("DIV", s.x, sqrt(2))), 1.0)), 0.5)


def gelu_halved_first(s: Spelled) -> Tensor:
    return s("MUL", s("MUL", 0.5, s.x), s("ADD", 1.0, s.erf(s("MUL", s.x, sqrt(0.5)))))


def gelu_by_tanh(s: Spelled) -> Tensor:
    cube = s("MUL", s("MUL", s.x, s.x), s.x)
    inner = s("MUL", s("ADD", s.x, s("MUL", cube, 0.044715)), sqrt(2 / pi))
    return s("MUL", s("MUL", s.x, 0.5), s("ADD", s("TANH", inner), 1.0))


def gelu_by_power(s: Spelled) -> Tensor:
    inner = s("MUL", sqrt(2 / pi), s("ADD", s.x, s("MUL", 0.044715, s("POW", s.x, 3.0))))
    return s("MUL", s.x, s("MUL", 0.5, s("ADD", 1.0, s("TANH", inner))))


def hard_swish(s: Spelled) -> Tensor:
    return s("MUL", s.x, s("MUL", s("RELU6", s("ADD", s.x, 3.0)), 1 / 6))


def hard_swish_by_clamps(s: Spelled) -> Tensor:
    clamped = s("MINIMUM", s("MAXIMUM", s("ADD", s.x, 3.0), 0.0), 6.0)
    return s("DIV", s("MUL", clamped, s.x), 6.0)


def leaky(s: Spelled) -> Tensor:
    return s("MAXIMUM", s.x, s("MUL", s.x, 0.1))


def leaky_by_sides(s: Spelled) -> Tensor:
    return s("SUB", s("RELU", s.x), s("MUL", s("RELU", s("NEG", s.x)), 0.25))


def logistic(s: Spelled) -> Tensor:
    return s("DIV", 1.0, s("ADD", 1.0, s("EXP", s("NEG", s.x))))


def prelu(s: Spelled) -> Tensor:
    slopes = s.number(0.1, 0.2, 0.3, -0.5, 2.0)
    negative = s("MUL", s("MUL", slopes, s("SUB", s.x, s("ABS", s.x))), 0.5)
    return s("ADD", s("RELU", s.x), negative)


def nearly_gelu(s: Spelled) -> Tensor:
    return s("MUL", s("MUL", s.x, s("ADD", s.erf(s("DIV", s.x, 1.41)), 1.0)), 0.5)


def swish_of_another_bound(s: Spelled) -> Tensor:
    return s("MUL", s.x, s("MUL", s("MINIMUM", s("RELU", s("ADD", s.x, 3.0)), 5.9), 1 / 6))


def silu(s: Spelled) -> Tensor:
    return s("MUL", s.x, s("LOGISTIC", s.x))


@pytest.mark.parametrize(
    ("spelled", "kind", "attrs"),
    [
        (gelu_halved_last, "GELU", GeluAttrs(False)),
        (gelu_halved_first, "GELU", GeluAttrs(False)),
        (gelu_by_tanh, "GELU", GeluAttrs(True)),
        (gelu_by_power, "GELU", GeluAttrs(True)),
        (hard_swish, "HARD_SWISH", None),
        (hard_swish_by_clamps, "HARD_SWISH", None),
        (leaky, "LEAKY_RELU", LeakyReluAttrs(float(np.float32(0.1)))),
        (leaky_by_sides, "LEAKY_RELU", LeakyReluAttrs(0.25)),
        (logistic, "LOGISTIC", None),
        (prelu, "PRELU", None),
    ],
)
def test_an_activation_is_recognised_as_files_spell_it(
    spelled: Callable[[Spelled], Tensor], kind: str, attrs: object
) -> None:
    s = Spelled()
    graph = s.b.output(spelled(s)).build()
    inputs = [np.linspace(-9, 9, 30, dtype=np.float32).reshape(2, 3, 5)]
    s.b.graph.ops[0].kind = "NEG"  # so that both signs come
    left = rewritten(graph, "recognise-activations", tolerance=4e-6, inputs=inputs)
    assert left == ["NEG", kind]
    assert attrs is None or graph.ops[1].attrs == attrs


@pytest.mark.parametrize("spelled", [nearly_gelu, swish_of_another_bound, silu])
def test_other_functions_stay(spelled: Callable[[Spelled], Tensor]) -> None:
    s = Spelled()
    graph = s.b.output(spelled(s)).build()
    kinds = [op.kind for op in graph.ops]
    assert rewritten(graph, "recognise-activations", tolerance=1e-6) == kinds


def test_what_is_read_in_between_stays() -> None:
    s = Spelled()
    clamped = s("RELU6", s("ADD", s.x, 3.0))
    graph = s.b.output(s("MUL", s.x, s("MUL", clamped, 1 / 6)), clamped).build()
    kinds = [op.kind for op in graph.ops]
    assert rewritten(graph, "recognise-activations", tolerance=1e-6) == kinds
