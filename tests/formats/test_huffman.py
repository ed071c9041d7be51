"""Weights of .circle files that are stored as ONE's Huffman codes."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import FormatError
from circlet.formats import dumps, load
from circlet.formats.huffman import huffman_decoded, huffman_encoded
from circlet.ir import DType, Graph, Model
from circlet.ops.build import builder
from circlet.passes import make
from tests.evaluate import evaluate, random_inputs
from tests.passes.networks import conv, image

# By hand: a tree of 19 bits, 1 0 00000010 0 00000001, and the codes 1, 1 and 0 of 1, 1 and 2.
STORED = [19, *[0] * 7, 3, *[0] * 7, 0x80, 0x80, 0x38]
ONE_VALUE = [9, *[0] * 7, 0, *[0] * 7, 0x03, 0x80]  # 0 00000111 and no codes
RNG = np.random.default_rng(4)


def test_bytes_are_stored_as_one_does() -> None:
    values = np.array([1, 1, 2], np.int8)
    assert huffman_encoded(values).tolist() == STORED
    stored = np.array(STORED, np.uint8)
    assert huffman_decoded(stored, 3, "w").tolist() == [1, 1, 2]
    assert huffman_decoded(np.array(ONE_VALUE, np.uint8), 5, "w").tolist() == [7] * 5


@pytest.mark.parametrize(
    "values",
    [
        RNG.integers(-128, 128, 5000),
        np.round(RNG.laplace(0, 9, 50_000)).clip(-128, 127),
        np.repeat(np.arange(18), [1 << n for n in range(18)]),  # codes of up to 17 bits
        [-128, 127],
    ],
    ids=["even", "weights", "long_codes", "two"],
)
def test_codes_come_back_as_what_they_stand_for(values: np.ndarray) -> None:
    given = np.asarray(values).astype(np.int8)
    back = huffman_decoded(huffman_encoded(given), given.size, "w")
    np.testing.assert_array_equal(back.view(np.int8), given)


@pytest.mark.parametrize(
    ("stored", "elements"),
    [
        (STORED[:12], 3),
        (STORED[:-1], 3),
        (STORED, 2),
        (STORED, 4),
        ([0, *STORED[1:]], 3),
        ([255, 255, *STORED[2:]], 3),
        ([18, *STORED[1:]], 3),
        ([*STORED[:15], 255, *STORED[16:]], 3),
        ([16, *STORED[1:16], 0xFF, 0xFF, 0xFF], 3),
    ],
)
def test_broken_codes_are_errors(stored: list[int], elements: int) -> None:
    with pytest.raises(FormatError, match="w"):
        huffman_decoded(np.array(stored, np.uint8), elements, "w")


def network() -> Graph:
    b = builder()
    return b.output(conv(b, image(b, DType.INT8), kernel=5)).build()


def test_circle_files_hold_compressed_filters_and_give_the_same_answers() -> None:
    graph = network()
    weights = graph.ops[0].inputs[1]
    assert weights is not None and weights.data is not None
    filters = np.resize(np.array([3, 3, 3, -7, 3, 9], np.int8), (64, 5, 5, 2))[:4]
    weights.data = np.ascontiguousarray(filters)
    plain = dumps(Model([graph]), "circle")
    assert make("compress-weights").run(graph)
    assert not make("compress-weights").run(graph)
    packed = dumps(Model([graph]), "circle")
    assert len(packed) < len(plain)
    assert dumps(load(packed), "circle") == packed
    read = load(packed).main
    inputs = random_inputs(graph)
    np.testing.assert_array_equal(evaluate(read, inputs)[0], evaluate(graph, inputs)[0])
    assert load(dumps(load(packed), "tflite")).main.ops[0].inputs[1].extra == {}  # type: ignore[union-attr]


def test_a_filter_of_one_value_is_stored_as_it_is() -> None:
    graph = network()
    weights = graph.ops[0].inputs[1]
    assert weights is not None and weights.data is not None
    weights.data = np.zeros_like(weights.data)
    plain = dumps(Model([graph]), "circle")
    make("compress-weights").run(graph)
    assert dumps(Model([graph]), "circle") == plain
