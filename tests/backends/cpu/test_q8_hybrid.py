from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet import Session
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, Quantization
from circlet.ops.build import builder
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.backends.cpu.cases import Network, SideBySide, each_width_of
from tests.backends.cpu.harness import AND_V3, check_native
from tests.backends.cpu.q8_graphs import Conv, conv_op, random_bytes

CASES = [
    Conv((1, 5, 6, 3), 5, stride=(2, 2), per_channel=True),
    Conv((2, 4, 5, 17), 33, (1, 1), activation="RELU"),
    Conv((2, 7, 7, 16), 48, per_channel=True),
    Conv((1, 7, 6, 1), 9, (1, 1), per_channel=True),
    Conv((2, 6, 7, 24), 0, per_channel=True, activation="RELU6"),
    Conv((2, 6, 7, 5), 0, stride=(2, 2), dilation=(1, 1)),
    Conv((1, 7, 6, 2), 0, (5, 3), multiplier=3, per_channel=True),
    Conv((2, 7, 6, 9), 0, multiplier=4, per_channel=True),
    Conv((2, 41, 23, 33), 5, per_channel=True),  # images in parts
    Conv((1, 3, 300, 64), 0, per_channel=True),
]


def _conv_graph(case: Conv, data: np.ndarray, rng: np.random.Generator) -> Graph:
    made = builder()
    image = made.input("x", DType.FLOAT32, data.shape)
    output = conv_op(made, replace(case, bias=False), image, rng)
    bias = rng.standard_normal(case.channels).astype(np.float32)
    made.graph.ops[-1].inputs[2] = made.constant("float_bias", bias)
    output.quant = None
    return made.output(output).build()


def _convolution(case: Conv) -> Network:
    rng = np.random.default_rng(13)
    data = (rng.standard_normal(case.image) * 3 + 0.7).astype(np.float32)
    data[0] *= 0.1
    return _conv_graph(case, data, rng), [data]


CONVOLUTIONS = SideBySide(CASES, _convolution, apart=CASES[1::2])


@each_width_of("case", CASES, CASES[1::2])
def test_hybrid_convolution_follows_the_record(case: Conv, target: str) -> None:
    CONVOLUTIONS.check(case, target)


def test_a_hybrid_image_of_zeros_gives_the_bias() -> None:
    rng = np.random.default_rng(1)
    case = Conv((1, 4, 4, 3), 5, per_channel=True)
    data = np.zeros(case.image, np.float32)
    check_native(_conv_graph(case, data, rng), [data])


def _rows(case: tuple[int, int, int, bool]) -> Network:
    rng = np.random.default_rng(17)
    rows, depth, units, asymmetric = case
    data = (rng.standard_normal((rows, depth)) + 0.3).astype(np.float32)
    data *= np.linspace(0.1, 3, rows, dtype=np.float32)[:, None]
    made = builder()
    source = made.input("x", DType.FLOAT32, (rows, depth))
    stored = random_bytes(rng, (units, depth), DType.INT8)
    weights = made.constant("w", stored, Quantization.per_tensor(0.01))
    bias = made.constant("b", rng.standard_normal(units).astype(np.float32))
    attrs = FullyConnectedAttrs("RELU", asymmetric_quantize_inputs=asymmetric)
    made.output(made.op("FULLY_CONNECTED", [source, weights, bias], attrs, name="y"))
    return made.build(), [data]


ROWS = [
    (*sizes, asymmetric)
    for sizes in ((1, 640, 128), (3, 17, 40), (2, 3, 1), (29, 64, 70))
    for asymmetric in (False, True)
]
LAYERS = SideBySide(ROWS, _rows)


@pytest.mark.parametrize("target", AND_V3)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_hybrid_fully_connected_follows_the_record(
    case: tuple[int, int, int, bool], target: str
) -> None:
    LAYERS.check(case, target)


@pytest.mark.parametrize(("first", "other"), [(48, 6), (6, 48)])
def test_images_in_parts_and_whole_ones_stand_for_each_other_at_other_sizes(
    first: int, other: int
) -> None:
    case = Conv((1, first, 40, 24), 5, per_channel=True)
    graph = _conv_graph(case, np.zeros(case.image, np.float32), np.random.default_rng(2))
    data = np.random.default_rng(3).normal(0, 1, (1, other, 40, 24)).astype(np.float32)
    session = Session(dumps(Model([graph]), "tflite"), strict=True, threads=2)
    (got,) = session.resized({"x": data.shape}).run([data]).values()
    fresh = _conv_graph(replace(case, image=data.shape), data, np.random.default_rng(2))
    (want,) = evaluate_graph(fresh, [data])
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)
