"""Recurrent layers: one step by hand, sequences as steps, both directions, and other terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from circlet.passes.decompose import Decompose
from tests.formats.nnapi.networks import BYTES, FLOATS, INTS
from tests.formats.nnapi.several import Several, answers_of

BATCHES, WIDTH, CELLS, OUTPUTS, STEPS = 2, 3, 4, 2, 3
TANH, RELU6 = 4, 3
Floats = np.ndarray


def _numbers(seed: int, *sizes: int) -> Floats:
    drawn = np.random.default_rng(seed).uniform(-1, 1, sizes)
    return np.asarray(drawn, np.float32)


class Layer:
    """The operands of one direction of an LSTM, None where they are left out."""

    def __init__(self, seed: int, *, coupled: bool, full: bool) -> None:
        """Coupled gates have no input gate; a full layer looks at its cells, norms and projects."""
        sizes: list[tuple[int, ...]] = [(CELLS, WIDTH)] * 4
        made = OUTPUTS if full else CELLS
        sizes += [(CELLS, made)] * 4 + [(CELLS,)] * 7 + [(made, CELLS), (made,)]
        self.weights: list[Floats | None] = [
            _numbers(seed + i, *each) for i, each in enumerate(sizes)
        ]
        self.norms: list[Floats | None] = [_numbers(seed + 20 + i, CELLS) for i in range(4)]
        absent = [0, 4, 8, 11] if coupled else []
        absent += [] if full else [8, 9, 10, 15, 16]
        for place in absent:
            self.weights[place] = None
        if not full:
            self.norms = [None] * 4
        elif coupled:
            self.norms[0] = None
        self.states = [_numbers(seed + 30, BATCHES, made), _numbers(seed + 31, BATCHES, CELLS)]
        self.width = made


def _given(network: Several, arrays: Sequence[Floats | None]) -> list[int]:
    return [network.left_out() if a is None else network.input(a) for a in arrays]


def _step(layer: Layer, x: Floats, states: Sequence[Floats], activation: int) -> Several:
    network, gates = Several(), 3 if layer.weights[0] is None else 4
    operands = [network.input(x), *_given(network, [*layer.weights, *states])]
    operands += [*network.scalars(activation, 0.9, 0.7), *_given(network, layer.norms)]
    sizes = [(BATCHES, gates * CELLS), (BATCHES, layer.width), (BATCHES, CELLS)]
    results = [(FLOATS, each) for each in [*sizes, (BATCHES, layer.width)]]
    network.makes("LSTM", operands, *results)
    return network


def _sequence(layer: Layer, x: Floats, time_major: bool, activation: int) -> Several:
    network = Several()
    operands = [network.input(x), *_given(network, [*layer.weights, *layer.states])]
    operands += [*network.scalars(activation, 0.9, 0.7, time_major), *_given(network, layer.norms)]
    network.makes("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, (FLOATS, (*x.shape[:2], layer.width)))
    return network


def test_one_step_by_hand() -> None:
    """All weights are zero, so gates are logistic(bias): 1/2 but for the cell's tanh(1)."""
    zeros, ones = np.zeros, np.ones((1,), np.float32)
    network = Several()
    arrays: list[Floats | None] = [zeros((1, 1))] * 8
    arrays += [None] * 3 + [zeros(1), zeros(1), ones, zeros(1), None, None, zeros((1, 1))]
    operands = [network.input([[5.0]]), *_given(network, arrays), network.input([[3.0]])]
    operands += network.scalars(TANH, 0.0, 0.0)
    network.makes("LSTM", operands, *[(FLOATS, (1, n)) for n in (4, 1, 1, 1)])
    scratch, state, cell, output = network.answers()
    wanted = 0.5 * 3 + 0.5 * np.tanh(1)
    assert scratch.shape == (1, 4)
    np.testing.assert_allclose(cell, [[wanted]], rtol=1e-6)
    np.testing.assert_allclose(output, [[0.5 * np.tanh(wanted)]], rtol=1e-6)
    np.testing.assert_array_equal(state, output)


LAYERS = pytest.mark.parametrize(
    ("coupled", "full"), [(False, False), (True, False), (False, True), (True, True)]
)


@LAYERS
def test_a_sequence_is_step_after_step(coupled: bool, full: bool) -> None:
    layer = Layer(7, coupled=coupled, full=full)
    x = _numbers(50, STEPS, BATCHES, WIDTH)
    states, rows = layer.states, []
    for step in x:
        _, *states, row = _step(layer, step, states, TANH).answers()
        rows.append(row)
    (made,) = _sequence(layer, x, True, TANH).answers()
    np.testing.assert_allclose(made, np.stack(rows), rtol=1e-5, atol=1e-6)
    (turned,) = _sequence(layer, x.swapaxes(0, 1), False, TANH).answers()
    np.testing.assert_array_equal(turned, made.swapaxes(0, 1))


@LAYERS
@pytest.mark.parametrize("activation", [0, RELU6, TANH, 6])
def test_other_kinds_compute_the_same(coupled: bool, full: bool, activation: int) -> None:
    layer = Layer(11, coupled=coupled, full=full)
    network = _sequence(layer, _numbers(60, BATCHES, STEPS, WIDTH), False, activation)
    model = network.model()
    assert Decompose().run(model.graphs[0])
    assert not any(op.kind == "CUSTOM" for op in model.graphs[0].ops)
    (made,) = answers_of(model, network.given)
    np.testing.assert_allclose(made, network.answers()[0], rtol=1e-5, atol=1e-6)


def test_long_sequences_stay_whole() -> None:
    layer = Layer(11, coupled=False, full=False)
    model = _sequence(layer, _numbers(60, 40, BATCHES, WIDTH), True, TANH).model()
    assert not Decompose().run(model.graphs[0])


def _both_ways(
    layers: Sequence[Layer], x: Floats, aux: Floats | None, crossed: bool, merged: bool
) -> Several:
    network = Several()
    operands = [network.input(x)]
    for layer in layers:
        operands += _given(network, layer.weights)
    for layer in layers:
        operands += _given(network, layer.states)
    weights = [_numbers(90 + i, CELLS, WIDTH) if crossed else None for i in range(8)]
    operands += _given(network, [aux, *weights])
    operands += network.scalars(TANH, 0.9, 0.7, merged, True)
    operands += _given(network, [None] * 8)
    width = 2 * CELLS if merged else CELLS
    results = [(FLOATS, (STEPS, BATCHES, width))] * (1 if merged else 2)
    network.makes("BIDIRECTIONAL_SEQUENCE_LSTM", operands, *results)
    return network


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
def test_two_directions_are_two_layers(merged: bool, parallel: bool) -> None:
    """The backward one runs over the reversed sequence, or over that of the auxiliary input."""
    layers = [Layer(seed, coupled=False, full=False) for seed in (1, 200)]
    x = _numbers(70, STEPS, BATCHES, WIDTH)
    aux = _numbers(71, STEPS, BATCHES, WIDTH) if parallel else None
    (forward,) = _sequence(layers[0], x, True, TANH).answers()
    (backward,) = _sequence(layers[1], (x if aux is None else aux)[::-1], True, TANH).answers()
    made = _both_ways(layers, x, aux, False, merged).answers()
    expected = [forward, backward[::-1]]
    expected = [np.concatenate(expected, axis=2)] if merged else expected
    for got, wanted in zip(made, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_an_auxiliary_input_with_weights_adds_to_gates() -> None:
    """As one input as wide as both, with weights side by side."""
    layers = [Layer(seed, coupled=False, full=False) for seed in (1, 200)]
    x, aux = _numbers(70, STEPS, BATCHES, WIDTH), _numbers(71, STEPS, BATCHES, WIDTH)
    made = _both_ways(layers, x, aux, True, False).answers()
    wide = layers[0]
    for gate in range(4):
        own = wide.weights[gate]
        assert own is not None
        wide.weights[gate] = np.concatenate([own, _numbers(90 + gate, CELLS, WIDTH)], axis=1)
    (expected,) = _sequence(wide, np.concatenate([x, aux], axis=2), True, TANH).answers()
    np.testing.assert_allclose(made[0], expected, rtol=1e-5, atol=1e-6)


def _plain(op: str, x: Floats, rest: Sequence[int | bool], *results: Sequence[int]) -> Several:
    network = Several()
    sizes = [(CELLS, WIDTH), (CELLS, CELLS), (CELLS,), (BATCHES, CELLS)]
    arrays = [_numbers(80 + i, *each) for i, each in enumerate(sizes)]
    operands = [network.input(x), *_given(network, arrays), *network.scalars(*rest)]
    network.makes(op, operands, *[(FLOATS, each) for each in results])
    return network


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_plain_layer_by_its_formula(decomposed: bool) -> None:
    x = _numbers(50, BATCHES, STEPS, WIDTH)
    network = _plain("UNIDIRECTIONAL_SEQUENCE_RNN", x, [TANH, 0], (BATCHES, STEPS, CELLS))
    model = network.model()
    assert not decomposed or Decompose().run(model.graphs[0])
    _, weights, recurrent, bias, state = network.given
    rows = []
    for step in range(STEPS):
        state = np.tanh(x[:, step] @ weights.T + state @ recurrent.T + bias)
        rows.append(state)
    (made,) = answers_of(model, network.given)
    np.testing.assert_allclose(made, np.stack(rows, axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("aux", ["", "parallel", "crossed"])
def test_two_directions_of_a_plain_layer(merged: bool, aux: str) -> None:
    """Without weights the auxiliary input is the backward layer's; with them both add it."""
    x, other = _numbers(50, STEPS, BATCHES, WIDTH), _numbers(51, STEPS, BATCHES, WIDTH)
    sizes = [(CELLS, WIDTH), (CELLS, CELLS), (CELLS,), (BATCHES, CELLS)]
    layers = [[_numbers(80 + 10 * way + i, *s) for i, s in enumerate(sizes)] for way in (0, 1)]
    weights = [_numbers(100 + way, CELLS, WIDTH) if aux == "crossed" else None for way in (0, 1)]
    network = Several()
    operands = [network.input(x), *_given(network, [*layers[0], *layers[1]])]
    operands += _given(network, [other if aux else None, *weights])
    operands += network.scalars(TANH, True, merged)
    width = 2 * CELLS if merged else CELLS
    results = [(FLOATS, (STEPS, BATCHES, width))] * (1 if merged else 2)
    network.makes("BIDIRECTIONAL_SEQUENCE_RNN", operands, *results)
    expected = []
    for way, (own, recurrent, bias, state) in enumerate(layers):
        rows, added = [], weights[way]
        data = other if way and aux == "parallel" else x
        for step in range(STEPS)[:: -1 if way else 1]:
            total = data[step] @ own.T + state @ recurrent.T + bias
            state = np.tanh(total if added is None else total + other[step] @ added.T)
            rows.append(state)
        expected.append(np.stack(rows[::-1] if way else rows))
    wanted = [np.concatenate(expected, axis=2)] if merged else expected
    for got, right in zip(network.answers(), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)


def test_one_step_gives_its_state_first() -> None:
    sizes = (BATCHES, CELLS), (BATCHES, CELLS)
    network = _plain("RNN", _numbers(50, BATCHES, WIDTH), [RELU6], *sizes)
    x, weights, recurrent, bias, before = network.given
    state, output = network.answers()
    expected = np.clip(x @ weights.T + before @ recurrent.T + bias, 0, 6)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(state, output)


@pytest.mark.parametrize("decomposed", [False, True])
def test_filters_over_time_by_hand(decomposed: bool) -> None:
    """Rank 2: each unit sums two filters of depth 2 over features 1, 2, 3 and 4 times the input."""
    network = Several()
    operands = [network.input([[10.0]]), network.input([[1.0], [2], [3], [4]])]
    operands.append(network.input([[1.0, 10], [1, 10], [1, 10], [1, 10]]))
    operands.append(network.input([0.5, -5000.0]))
    operands += [network.input([[1.0, 9, 2, 9, 3, 9, 4, 9]]), *network.scalars(2, 1)]
    network.makes("SVDF", operands, (FLOATS, (1, 8)), (FLOATS, (1, 2)))
    model = network.model()
    assert not decomposed or Decompose().run(model.graphs[0])
    memory, made = answers_of(model, network.given)
    assert memory.tolist() == [[10, 0, 20, 0, 30, 0, 40, 0]]
    assert made.tolist() == [[1 + 100 + 2 + 200 + 0.5, 0]]


def test_fixed_point_cells_as_android_has_them() -> None:
    """The weights, inputs and outputs of three steps of AOSP's own test."""
    own = [[146, 250, 235, 171, 10, 218, 171, 108], [24, 50, 132, 179, 158, 110, 3, 169]]
    own += [[133, 34, 29, 49, 206, 109, 54, 183], [195, 187, 11, 99, 109, 10, 218, 48]]
    back = [[254, 206, 77, 168, 71, 20, 215, 6, 223, 7, 118, 225, 59, 130, 174, 26]]
    back.append([137, 240, 103, 52, 68, 51, 237, 112, 0, 220, 89, 23, 69, 4, 207, 253])
    back.append([172, 60, 205, 65, 14, 0, 140, 168, 240, 223, 133, 56, 142, 64, 246, 216])
    back.append([106, 214, 67, 23, 59, 158, 45, 3, 119, 132, 49, 205, 129, 218, 11, 98])
    biases = [[-7876, 13488, -726, 32839], [9206, -46884, -11693, -38724]]
    biases += [[39481, 48624, 48976, -21419], [-58999, -17050, -41852, -40538]]
    network, scale = Several(), 0.00408021
    numbers: dict[str, Any] = {"scale": 1 / 128, "zeroPoint": 128}
    operands = [network.input([[154, 166], [100, 200]], BYTES, **numbers)]
    for width, all_weights in ((2, own), (4, back)):
        for weights in all_weights:
            array = np.reshape(weights, (4, width))
            operands.append(network.constant(array, BYTES, scale=scale, zeroPoint=100))
    operands += [network.constant(bias, INTS, scale=scale / 128) for bias in biases]
    cells = ("TENSOR_QUANT16_SYMM", (2, 4), {"scale": 1 / 2048})
    operands.append(network.input(np.zeros((2, 4)), cells[0], scale=1 / 2048))
    operands.append(network.input(np.full((2, 4), 128), BYTES, **numbers))
    network.makes("QUANTIZED_16BIT_LSTM", operands, cells, (BYTES, (2, 4), numbers))
    cell, made = network.answers()
    assert made.tolist() == [[136, 150, 140, 115], [135, 152, 138, 112]]
    for step, expected in (
        ([[166, 179], [50, 150]], [[140, 151, 146, 112], [136, 156, 142, 112]]),
        ([[141, 141], [111, 222]], [[139, 153, 146, 114], [141, 154, 146, 108]]),
    ):
        cell, made = network.answers(np.array(step, np.uint8), cell, made)
        assert made.tolist() == expected
