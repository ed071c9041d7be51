"""Resizing and blocks of pixels, as NNAPI's scalars ask for them."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import UnsupportedOpsError
from tests.formats.nnapi.networks import BYTES, INTS, Network

IMAGE = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32).reshape(1, 2, 2, 1)


@pytest.mark.parametrize("kind", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_widths_come_before_heights(kind: str) -> None:
    network = Network()
    scalars = network.scalars(4, 2, False)
    network.operation(kind, [network.input(IMAGE), *scalars], (1, 2, 4, 1))
    step = [1, 1.5, 2, 2] if kind == "RESIZE_BILINEAR" else [1, 1, 2, 2]
    assert network.run()[0, 0, :, 0].tolist() == step


@pytest.mark.parametrize("is_open", [False, True])
def test_factors_are_rounded_down(is_open: bool) -> None:
    network = Network()
    image = network.input(IMAGE, dims=(0, 0, 0, 1) if is_open else (1, 2, 2, 1))
    scalars = network.scalars(1.9, 1.4)
    dims = (0, 0, 0, 1) if is_open else (1, 2, 3, 1)
    network.operation("RESIZE_NEAREST_NEIGHBOR", [image, *scalars], dims)
    assert network.run()[0, ..., 0].tolist() == [[1, 1, 2], [3, 3, 4]]


def test_channels_may_come_first() -> None:
    network = Network()
    image = network.input(IMAGE.reshape(1, 1, 2, 2))
    scalars = network.scalars(4, 2, True)
    network.operation("RESIZE_NEAREST_NEIGHBOR", [image, *scalars], (1, 1, 2, 4))
    assert network.run()[0, 0].tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]


def test_pixels_become_channels_and_back() -> None:
    network = Network()
    network.operation("SPACE_TO_DEPTH", [network.input(IMAGE), network.scalar(2)], (1, 1, 1, 4))
    assert network.run().reshape(-1).tolist() == [1, 2, 3, 4]
    network = Network()
    image = network.input(np.arange(4.0).reshape(1, 4, 1, 1))
    network.operation("DEPTH_TO_SPACE", [image, *network.scalars(2, True)], (1, 1, 2, 2))
    assert network.run()[0, 0].tolist() == [[0, 1], [2, 3]]


def test_what_is_added_around_blocks_is_the_zero_point() -> None:
    network = Network()
    image = network.input([[[[5]]]], BYTES, scale=1.0, zeroPoint=9)
    operands = [image, network.constant([1, 2], INTS), network.constant([[0, 0], [0, 1]], INTS)]
    network.operation("SPACE_TO_BATCH_ND", operands, (2, 1, 1, 1), BYTES, scale=1.0, zeroPoint=9)
    assert network.run().reshape(-1).tolist() == [5, 9]


def test_batches_become_pixels() -> None:
    network = Network()
    image = network.input(np.array([1.0, 2.0]).reshape(2, 1, 1, 1))
    operands = [image, network.constant([1, 2], INTS)]
    network.operation("BATCH_TO_SPACE_ND", operands, (1, 1, 2, 1))
    assert network.run().reshape(-1).tolist() == [1, 2]


@pytest.mark.parametrize("axis", [1, -1])
def test_channels_of_groups_take_turns(axis: int) -> None:
    network = Network()
    source = network.input([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])
    network.operation("CHANNEL_SHUFFLE", [source, *network.scalars(2, axis)], (1, 6))
    assert network.run().reshape(-1).tolist() == [0, 3, 1, 4, 2, 5]


def test_a_scalar_that_is_computed_is_named() -> None:
    network = Network()
    block = network.operand("INT32", (), "INPUT")
    network.found["inputs"].append(block)
    network.operation("DEPTH_TO_SPACE", [network.input(IMAGE), block], (1, 2, 4, 1))
    with pytest.raises(UnsupportedOpsError, match=r"its input 1 \(operand0\) is no constant"):
        network.model()
