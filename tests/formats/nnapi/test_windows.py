"""Scalars of operations over images: schemes, amounts, layouts, and widths that come first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.errors import CircletError
from tests.formats.nnapi.networks import BYTES, INTS, NONE, SAME, VALID, Network

IMAGE = np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3, 1)
TWO = np.stack([IMAGE[..., 0], 10 * IMAGE[..., 0]], axis=1)  # [1, 2, 3, 3]


ONE = np.ones((1, 1, 1, 1), np.float32)
PAIR = np.array([1.0, 100.0], np.float32).reshape(1, 1, 2, 1)


def conv(
    scalars: Sequence[int | bool],
    dims: Sequence[int],
    image: np.ndarray = IMAGE,
    weights: np.ndarray = ONE,
) -> np.ndarray:
    """CONV_2D over an image."""
    network = Network()
    operands = [network.input(image), network.constant(weights), network.constant([0.0])]
    network.operation("CONV_2D", [*operands, *network.scalars(*scalars)], dims)
    return network.run()


def test_the_width_of_a_stride_comes_before_its_height() -> None:
    assert conv([VALID, 2, 1, NONE], (1, 3, 2, 1)).reshape(3, 2).tolist() == [
        [1, 3],
        [4, 6],
        [7, 9],
    ]


def test_four_amounts_are_left_right_top_bottom() -> None:
    result = conv([1, 0, 0, 2, 1, 1, NONE], (1, 5, 4, 1)).reshape(5, 4)
    assert result[0].tolist() == [0, 1, 2, 3]
    assert not result[3:].any()


def test_a_flag_behind_the_activation_says_that_channels_come_first() -> None:
    result = conv([VALID, 1, 1, NONE, True], (1, 1, 3, 3), TWO, np.ones((1, 1, 1, 2)))
    assert result.shape == (1, 1, 3, 3)
    assert result[0, 0].tolist() == (11 * IMAGE[0, ..., 0]).tolist()


@pytest.mark.parametrize("padding", [[VALID], [0, 0, 0, 0]])
def test_dilations_follow_the_layout_width_first(padding: list[int]) -> None:
    scalars = [*padding, 1, 1, NONE, False, 2, 1]
    result = conv(scalars, (1, 3, 1, 1), IMAGE, PAIR)
    assert result.reshape(-1).tolist() == [301, 604, 907]


def test_same_padding_puts_the_odd_pixel_behind() -> None:
    result = conv([SAME, 1, 1, NONE], (1, 3, 3, 1), IMAGE, PAIR)
    assert result[0, 0, :, 0].tolist() == [201, 302, 3]


def test_an_unknown_scheme_and_an_unknown_activation_are_refused() -> None:
    with pytest.raises(CircletError, match="padding scheme"):
        conv([3, 1, 1, NONE], (1, 3, 3, 1))
    with pytest.raises(CircletError, match="activation"):
        conv([SAME, 1, 1, 4], (1, 3, 3, 1))


def test_sizes_that_do_not_follow_are_refused() -> None:
    with pytest.raises(CircletError, match="do not fit"):
        conv([VALID, 1, 1, NONE], (1, 2, 3, 1))


def test_a_depth_multiplier_gives_each_channel_some_filters() -> None:
    network = Network()
    image = network.input(np.array([2.0, 3.0]).reshape(1, 1, 1, 2))
    weights = network.constant(np.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4))
    operands = [image, weights, network.constant([0.0, 0.0, 0.0, 1.0])]
    scalars = network.scalars(VALID, 1, 1, 2, NONE)
    network.operation("DEPTHWISE_CONV_2D", operands + scalars, (1, 1, 1, 4))
    assert network.run().reshape(-1).tolist() == [2, 4, 9, 13]


def test_groups_keep_their_channels_apart() -> None:
    network = Network()
    image = network.input(np.array([2.0, 3.0]).reshape(1, 1, 1, 2))
    weights = network.constant(np.array([10.0, 100.0]).reshape(2, 1, 1, 1))
    operands = [image, weights, network.constant([0.0, 0.0])]
    scalars = network.scalars(0, 0, 0, 0, 1, 1, 2, NONE, False)
    network.operation("GROUPED_CONV_2D", operands + scalars, (1, 1, 1, 2))
    assert network.run().reshape(-1).tolist() == [20, 300]


def test_weights_with_scales_of_their_own_meet_bytes() -> None:
    """(130 - 128) * 0.5 = 1 times 4 * 0.25 and 4 * 0.5, plus biases of 8 and -8 steps."""
    network = Network()
    scales = {"channelDim": 0, "scales": [0.25, 0.5]}
    weights = np.array([4, 4]).reshape(2, 1, 1, 1)
    operands = [
        network.input(np.array([130]).reshape(1, 1, 1, 1), BYTES, scale=0.5, zeroPoint=128),
        network.constant(weights, "TENSOR_QUANT8_SYMM_PER_CHANNEL", perChannel=scales),
        network.constant([8, -8], INTS),
    ]
    scalars = network.scalars(VALID, 1, 1, NONE)
    network.operation("CONV_2D", operands + scalars, (1, 1, 1, 2), BYTES, scale=1.0, zeroPoint=100)
    assert network.run().reshape(-1).tolist() == [102, 100]


def transposed(scalars: Sequence[int | bool], dims: Sequence[int], *sizes: int) -> np.ndarray:
    """TRANSPOSE_CONV_2D of two pixels in a row with the window 1, 10, 100."""
    network = Network()
    image = network.input(np.array([1.0, 2.0]).reshape(1, 1, 2, 1))
    weights = network.constant(np.array([1.0, 10.0, 100.0]).reshape(1, 1, 3, 1))
    operands = [image, weights, network.constant([0.0])]
    operands += [network.constant(sizes, INTS)] if sizes else []
    network.operation("TRANSPOSE_CONV_2D", operands + network.scalars(*scalars), dims)
    return network.run()


def test_a_transposed_convolution_takes_sizes_with_a_scheme() -> None:
    scalars = [VALID, 2, 1, NONE, False]
    result = transposed(scalars, (1, 1, 5, 1), 1, 1, 5, 1)
    assert result.reshape(-1).tolist() == [1, 10, 102, 20, 200]


@pytest.mark.parametrize(
    ("behind", "expected"),
    [(0, [10, 102, 20, 200]), (1, [10, 102, 20]), (-1, [10, 102, 20, 200, 0])],
)
def test_a_transposed_convolution_takes_amounts_that_may_be_negative(
    behind: int, expected: list[float]
) -> None:
    scalars = [1, behind, 0, 0, 2, 1, NONE, False]
    result = transposed(scalars, (1, 1, len(expected), 1))
    assert result.reshape(-1).tolist() == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("AVERAGE_POOL_2D", 4.5), ("MAX_POOL_2D", 9.0), ("L2_POOL_2D", 33.0**0.5)],
)
def test_pools_leave_out_what_is_added_around(kind: str, expected: float) -> None:
    """The window of 3x3 holds all pixels; their mean square is (1 + 81 + 1 + 49) / 4."""
    network = Network()
    image = network.input(np.array([[1.0, 9.0], [1.0, 7.0]]).reshape(1, 2, 2, 1))
    scalars = network.scalars(1, 0, 1, 0, 1, 1, 3, 3, NONE)
    network.operation(kind, [image, *scalars], (1, 1, 1, 1))
    assert network.run().item() == pytest.approx(expected)


def test_pools_take_the_width_of_a_window_first_and_channels_first() -> None:
    network = Network()
    scalars = network.scalars(VALID, 1, 1, 3, 1, NONE, True)
    network.operation("MAX_POOL_2D", [network.input(TWO), *scalars], (1, 2, 3, 1))
    assert network.run().reshape(2, 3).tolist() == [[3, 6, 9], [30, 60, 90]]
