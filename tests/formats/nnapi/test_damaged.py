"""Networks with something changed in them are read or refused by code, whatever was changed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.formats.nnapi.read import read_nnapi
from tests.formats.nnapi.networks import BYTES, INTS, NONE, SAME, Network

PUT: tuple[object, ...] = (
    *(None, -1, 0, 1, 3, 1 << 31, 1 << 40, 1.5, float("nan"), float("inf"), True, "", "x"),
    *([], {}, [0], [-1], [1, 2, 3], [0, 0], "CONSTANT", "INPUT", "TEMPORARY"),
    *("TENSOR_INT32", "TENSOR_FLOAT32", "TENSOR_QUANT8_ASYMM", "BOOL", "INT32", "FLOAT32"),
)
Path = tuple[str | int, ...]


def convolution() -> Network:
    network = Network()
    scales = {"channelDim": 0, "scales": [0.25, 0.5]}
    operands = [
        network.input(np.ones((1, 3, 3, 1)), BYTES, scale=0.5, zeroPoint=128),
        network.constant(
            np.ones((2, 1, 1, 1), np.int8), "TENSOR_QUANT8_SYMM_PER_CHANNEL", perChannel=scales
        ),
        network.constant([1, 2], INTS),
        *network.scalars(SAME, 1, 1, NONE, False, 1, 1),
    ]
    network.operation("CONV_2D", operands, (1, 3, 3, 2), BYTES, scale=1.0, zeroPoint=0)
    return network


def transposed() -> Network:
    network = Network()
    operands = [network.input(np.ones((1, 1, 1, 2))), network.constant(np.ones((1, 1, 3, 1)))]
    operands += [network.constant([0.0]), network.constant([1, 1, 1, 4], INTS)]
    scalars = network.scalars(SAME, 2, 1, NONE, True)
    network.operation("TRANSPOSE_CONV_2D", operands + scalars, (1, 1, 1, 4))
    return network


def resized() -> Network:
    network = Network()
    operands = [network.input(np.ones((1, 2, 2, 1))), *network.scalars(1.5, 2.0, False)]
    network.operation("RESIZE_BILINEAR", operands, (1, 4, 3, 1))
    return network


def shuffled() -> Network:
    network = Network()
    operands = [network.input(np.ones((2, 6))), *network.scalars(3, -1)]
    network.operation("CHANNEL_SHUFFLE", operands, (2, 6))
    return network


def paths(found: Any, start: Path = ()) -> Iterator[Path]:
    """Where in a JSON object something stands."""
    inner = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in inner:
        yield (*start, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*start, key))


def damaged(found: Any, source: random.Random) -> Any:
    """A copy with another value in one place, or with some operands of the operation missing."""
    made = copy.deepcopy(found)
    if source.random() < 0.2:
        indices = made["operations"][0][source.choice(("inputs", "outputs"))]
        del indices[source.randrange(len(indices)) :]
        return made
    *outer, last = source.choice(list(paths(made)))
    place = made
    for key in outer:
        place = place[key]
    place[last] = source.choice(PUT)
    return made


@pytest.mark.parametrize("network", [convolution(), transposed(), resized(), shuffled()])
def test_whatever_is_changed_has_a_code(network: Network) -> None:
    source, refused = random.Random(7), 0
    assert network.model().main.ops
    for _ in range(300):
        text = json.dumps(damaged(network.found, source)).encode()
        try:
            read_nnapi(memoryview(text))
        except CircletError:
            refused += 1
    assert 100 < refused < 300
