"""Arithmetic, activations, normalisations and conversions, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.formats.nnapi.networks import BYTES, INTS, NONE, RELU, Network

ROWS = np.array([[3.0, 0.0], [4.0, 1.0]], np.float32)
OF_ROWS = pytest.mark.parametrize("axis", [0, -2])


def test_sums_carry_an_activation_and_broadcast() -> None:
    network = Network()
    operands = [network.input([[1.0], [-5.0]]), network.input([1.0, 2.0]), network.scalar(RELU)]
    network.operation("ADD", operands, (2, 2))
    assert network.run().tolist() == [[2, 3], [0, 0]]


def test_sums_of_bytes_are_rounded_twice_where_litert_rounds_once() -> None:
    """A sum of 1 times 1/4: gemmlowp's doubling high product makes 1 of it, and its shift 1."""
    network = Network()
    operands = [
        network.input([[1]], BYTES, scale=0.5, zeroPoint=0),
        network.constant([[1]], BYTES, scale=0.5, zeroPoint=0),
        network.constant([0], INTS),
        network.scalar(NONE),
    ]
    network.operation("FULLY_CONNECTED", operands, (1, 1), BYTES, scale=1.0, zeroPoint=7)
    assert network.run().item() == 8


def test_rows_are_whatever_fits_the_weights() -> None:
    network = Network()
    operands = [network.input(np.ones((2, 1, 2))), network.constant([[1.0, 2.0]])]
    operands += [network.constant([0.5]), network.scalar(NONE)]
    network.operation("FULLY_CONNECTED", operands, (2, 1))
    assert network.run().tolist() == [[3.5], [3.5]]


@OF_ROWS
def test_norms_are_of_any_axis(axis: int) -> None:
    network = Network()
    network.operation("L2_NORMALIZATION", [network.input(ROWS), network.scalar(axis)], (2, 2))
    np.testing.assert_allclose(network.run(), [[0.6, 0], [0.8, 1]], rtol=1e-6)


def test_norms_of_bytes_are_steps_of_one_in_128() -> None:
    network = Network()
    source = network.input([[131, 124]], BYTES, scale=0.1, zeroPoint=128)
    network.operation("L2_NORMALIZATION", [source], (1, 2), BYTES, scale=0.5, zeroPoint=3)
    assert network.run().tolist() == [[128 + 77, 128 - 102]]


@OF_ROWS
def test_shares_are_of_any_axis(axis: int) -> None:
    network = Network()
    scalars = network.scalars(2.0, axis)
    network.operation("SOFTMAX", [network.input(ROWS), *scalars], (2, 2))
    low = 1 / (1 + np.exp(2.0))
    np.testing.assert_allclose(network.run(), [[low, low], [1 - low, 1 - low]], rtol=1e-5)


@OF_ROWS
def test_logarithms_of_shares_take_a_factor(axis: int) -> None:
    network = Network()
    scalars = network.scalars(2.0, axis)
    network.operation("LOG_SOFTMAX", [network.input(ROWS), *scalars], (2, 2))
    low = -np.log(1 + np.exp(2.0))
    np.testing.assert_allclose(network.run(), [[low, low], [2 + low, 2 + low]], rtol=1e-5)


@OF_ROWS
def test_neighbours_are_along_any_axis(axis: int) -> None:
    """Divided by the root of 1 + 2 * (3 * 3 + 4 * 4), and of 1 + 2 * (0 + 1)."""
    network = Network()
    scalars = network.scalars(1, 1.0, 2.0, 0.5, axis)
    network.operation("LOCAL_RESPONSE_NORMALIZATION", [network.input(ROWS), *scalars], (2, 2))
    wide, narrow = 51**-0.5, 3**-0.5
    np.testing.assert_allclose(network.run(), [[3 * wide, 0], [4 * wide, narrow]], rtol=1e-6)


@pytest.mark.parametrize("is_nchw", [False, True])
def test_images_are_normalised_by_their_variance(is_nchw: bool) -> None:
    """1, 2, 2, 4: mean 2.25, variance 1.1875; gamma 2, beta 10."""
    network = Network()
    image = np.array([1.0, 2.0, 2.0, 4.0]).reshape((1, 1, 2, 2) if is_nchw else (1, 2, 2, 1))
    scalars = network.scalars(2.0, 10.0, 0.0001, is_nchw)
    network.operation("INSTANCE_NORMALIZATION", [network.input(image), *scalars], image.shape)
    expected = [7.7059393, 9.541187, 9.541187, 13.211685]
    np.testing.assert_allclose(network.run().reshape(-1), expected, rtol=1e-6)


@pytest.mark.parametrize("is_training", [False, True])
def test_batches_are_normalised_by_given_or_own_statistics(is_training: bool) -> None:
    network = Network()
    operands = [network.input(np.array([1.0, 3.0]).reshape(1, 1, 2, 1))]
    operands += [network.input([value]) for value in (2.0, 5.0, 1.0, 4.0)]
    operands += [
        network.constant([is_training], "TENSOR_BOOL8"),
        network.constant(list(b"NHWC"), BYTES),
        network.constant([0.0]),
    ]
    network.operation("FUSED_BATCH_NORM_V3_EX", operands, (1, 1, 2, 1))
    assert network.run().reshape(-1).tolist() == ([3, 7] if is_training else [5, 7])


@pytest.mark.parametrize(
    ("kind", "expected"), [("RELU", [0, 2, 8]), ("RELU1", [-1, 1, 1]), ("RELU6", [0, 2, 6])]
)
def test_clamps_have_bounds_of_their_own(kind: str, expected: list[float]) -> None:
    network = Network()
    network.operation(kind, [network.input([-3.0, 2.0, 8.0])], (3,))
    assert network.run().tolist() == expected


def test_slopes_may_spread_over_more_values_than_there_are() -> None:
    network = Network()
    operands = [network.input([[-1.0], [4.0]]), network.input([2.0, 3.0])]
    network.operation("PRELU", operands, (2, 2))
    assert network.run().tolist() == [[-2, -3], [4, 4]]


def test_bytes_are_rounded_away_from_zero_and_saturate() -> None:
    network = Network()
    source = network.input([0.25, -0.25, 99.0, -99.0])
    network.operation("QUANTIZE", [source], (4,), BYTES, scale=0.5, zeroPoint=100)
    assert network.run().tolist() == [101, 99, 255, 0]


def test_scales_of_channels_are_undone() -> None:
    network = Network()
    scales = {"channelDim": 1, "scales": [0.5, 2.0]}
    weights = network.constant(
        [[1, 2], [-4, -3]], "TENSOR_QUANT8_SYMM_PER_CHANNEL", perChannel=scales
    )
    total = network.input(np.zeros((2, 2)))
    middle = network.operand("TENSOR_FLOAT32", (2, 2), "TEMPORARY")
    network.found["operations"].append(
        {"op": "DEQUANTIZE", "inputs": [weights], "outputs": [middle]}
    )
    network.operation("ADD", [middle, total, network.scalar(NONE)], (2, 2))
    assert network.run().tolist() == [[0.5, 4], [-2, -6]]


@pytest.mark.parametrize("kind", ["TENSOR_INT32", "TENSOR_FLOAT32"])
def test_numbers_that_a_byte_cannot_hold_become_its_nearest(kind: str) -> None:
    network = Network()
    network.operation("CAST", [network.input([-5, 7, 300], kind)], (3,), BYTES)
    assert network.run().tolist() == [0, 7, 255]


def test_halves_are_given_and_got_as_halves() -> None:
    network = Network()
    operands = [network.input([1.5], "TENSOR_FLOAT16"), network.constant([2.0], "TENSOR_FLOAT16")]
    network.operation("MUL", [*operands, network.scalar(NONE)], (1,), "TENSOR_FLOAT16")
    result = network.run()
    assert result.dtype == np.float16
    assert result.tolist() == [3.0]


def test_open_sizes_are_those_of_what_is_given() -> None:
    network = Network()
    operands = [network.input(np.zeros((1, 2)), dims=(0, 2)), network.constant([1.0, 2.0])]
    network.operation("ADD", [*operands, network.scalar(NONE)], (0, 2))
    for rows in (1, 3, 0):
        assert network.run(np.zeros((rows, 2), np.float32)).tolist() == [[1, 2]] * rows
