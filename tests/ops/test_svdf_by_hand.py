"""The keyword spotter that LiteRT cannot run: each SVDF again, in Python's own integers."""

from __future__ import annotations

from math import frexp

import numpy as np

from circlet.formats import load
from circlet.ir import Op, Tensor
from circlet.ops import get
from tests.corpora import corpus

STEPS = 12


def test_svdf_of_the_keyword_spotter_equals_integers_by_hand() -> None:
    graph = load(corpus("models/keyword_scrambled_svdf_int8.tflite")).main
    ops = [op for op in graph.ops if op.kind == "SVDF"]
    assert len(ops) == 7
    random = np.random.default_rng(0)
    for op in ops:
        tensors = [tensor for tensor in op.inputs if tensor is not None]
        kept = np.full(tensors[4].static_shape, zero(tensors[4]), np.int8)
        past = [[zero(tensors[4])] * tensors[2].static_shape[1] for _ in range(len(data(op, 2)))]
        for _ in range(STEPS):
            x = random.integers(-128, 128, tensors[0].static_shape, np.int8)
            output, kept = get(op).evaluate(op, [x, data(op, 1), data(op, 2), data(op, 3), kept])
            assert output.ravel().tolist() == by_hand(op, x.ravel().tolist(), past)
            assert kept.ravel().tolist() == [value for row in past for value in row]


def by_hand(op: Op, x: list[int], past: list[list[int]]) -> list[int]:
    """One step of rank 1; `past` is updated."""
    given, features, time, _, state = (t for t in op.inputs if t is not None)
    first = scale(given) * scale(features) / scale(state)
    second = scale(state) * scale(time) / scale(op.outputs[0])
    results = []
    rows = zip(data(op, 1).tolist(), data(op, 2).tolist(), data(op, 3).tolist(), past, strict=True)
    for weights, times, bias, row in rows:
        total = sum(w * (value - zero(given)) for w, value in zip(weights, x, strict=True))
        row[:] = [*row[1:], byte(rescaled(total, first) + zero(state))]
        total = bias + sum(t * (v - zero(state)) for t, v in zip(times, row, strict=True))
        results.append(byte(rescaled(total, second) + zero(op.outputs[0])))
    return results


def rescaled(value: int, factor: float) -> int:
    """Times a factor below 1 in 31 bits: rounded halves up, then halves away from zero."""
    fraction, exponent = frexp(factor)
    assert exponent <= 0
    high = (value * int(fraction * 2**31 + 0.5) + 2**30) // 2**31
    half = 2**-exponent // 2
    return (high + half) // 2**-exponent if high >= 0 else -((-high + half) // 2**-exponent)


def byte(value: int) -> int:
    return max(-128, min(127, value))


def scale(tensor: Tensor) -> float:
    assert tensor.quant is not None
    return float(tensor.quant.scale[0])


def zero(tensor: Tensor) -> int:
    assert tensor.quant is not None
    return int(tensor.quant.zero_point[0])


def data(op: Op, position: int) -> np.ndarray:
    tensor = op.inputs[position]
    assert tensor is not None
    assert tensor.data is not None
    return tensor.data
