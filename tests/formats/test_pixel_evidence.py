"""Which numbers a network expects of pictures, from its graph."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.formats.pixel_evidence import pixel_mapping
from circlet.formats.pixels import PixelMapping
from circlet.formats.tflite_metadata import TensorFacts
from circlet.ir import DType, Graph, Op, Origin, Quantization, Tensor

CHANNELS = 32


def constant(name: str, data: np.ndarray) -> Tensor:
    return Tensor(name, DType.FLOAT32, data.shape, data=data.astype(np.float32))


def network(
    steps: tuple[tuple[str, float], ...] = (), mean: float = 0.0, gain: float = 1.0, name: str = "x"
) -> tuple[Graph, Tensor]:
    """Arithmetic on a picture, then a convolution with a normalisation for `mean` folded in."""
    first = tensor = Tensor(name, DType.FLOAT32, (1, 96, 96, 3))
    ops: list[Op] = []
    for index, (kind, number) in enumerate(steps):
        moved = Tensor(f"{kind}{index}", DType.FLOAT32, tensor.shape)
        ops.append(_op(kind, [tensor, constant("c", np.array(number))], moved))
        tensor = moved
    random = np.random.default_rng(5)
    weights = random.normal(0, 0.5, (CHANNELS, 3, 3, 3)) * gain
    sums = weights.reshape(CHANNELS, -1).sum(1)
    biases = random.normal(0, 0.35, CHANNELS) - sums * mean
    out = Tensor("y", DType.FLOAT32, (1, 96, 96, CHANNELS))
    ops.append(_op("CONV_2D", [tensor, constant("w", weights), constant("b", biases)], out))
    return Graph("g", [first], [out], ops), first


def _op(kind: str, inputs: list[Tensor | None], out: Tensor) -> Op:
    return Op(kind, inputs, [out], None, Origin.of(0, kind))


def found(*steps: tuple[str, float], mean: float = 0.0, gain: float = 1.0) -> PixelMapping:
    return pixel_mapping(*network(steps, mean, gain))


@pytest.mark.parametrize(
    ("mean", "gain", "name"),
    [(0.48, 1.0, "0..1"), (0.0, 1.0, "-1..1"), (118.0, 1 / 120, "0..255")],
)
def test_a_folded_normalisation_tells_the_range(mean: float, gain: float, name: str) -> None:
    mapping = found(mean=mean, gain=gain)
    assert (mapping.range, mapping.certainty) == (name, "guessed")
    assert mapping.alternative and mapping.alternative != name


@pytest.mark.parametrize(
    ("steps", "name"),
    [
        ((("MUL", 1 / 255),), "0..255"),
        ((("DIV", 127.5), ("SUB", 1.0)), "0..255"),
        ((("SUB", 127.5), ("MUL", 1 / 127.5)), "0..255"),
        ((("MUL", 2.0), ("SUB", 1.0)), "0..1"),
        ((("SUB", 0.45), ("DIV", 0.226)), "0..1"),
        ((("ADD", 1.0), ("MUL", 0.5)), "-1..1"),
        ((("SUB", 114.8),), "0..255"),
    ],
)
def test_arithmetic_on_the_picture_tells_the_range(
    steps: tuple[tuple[str, float], ...], name: str
) -> None:
    mapping = found(*steps)
    assert (mapping.range, mapping.certainty) == (name, "implied")


@pytest.mark.parametrize(
    ("dtype", "scale", "zero_point", "name"),
    [
        (DType.UINT8, 1 / 255, 0, "0..1"),
        (DType.INT8, 1 / 255, -128, "0..1"),
        (DType.UINT8, 1 / 128, 128, "-1..1"),
        (DType.INT8, 1 / 127.5, -1, "-1..1"),
        (DType.UINT8, 1.0, 0, "0..255"),
        (DType.INT8, 1.0, -128, "0..255"),
        (DType.INT8, 0.0186, -14, "imagenet"),
        (DType.INT16, 255 / 32767, 0, "0..255"),
    ],
)
def test_quantisation_implies_the_range(
    dtype: DType, scale: float, zero_point: int, name: str
) -> None:
    graph, tensor = network()
    tensor.dtype = dtype
    tensor.quant = Quantization(np.array([scale], np.float32), np.array([zero_point]))
    mapping = pixel_mapping(graph, tensor)
    assert (mapping.range, mapping.certainty) == (name, "implied")


def test_what_metadata_say_comes_first() -> None:
    mapping = pixel_mapping(*network((("MUL", 1 / 255),)), TensorFacts(mean=(10.0,), std=(5.0,)))
    assert (mapping.mean, mapping.std, mapping.certainty) == ((10.0,), (5.0,), "known")


def test_bytes_that_metadata_take_as_they_are_stay_so() -> None:
    graph, tensor = network()
    tensor.dtype = DType.UINT8
    tensor.quant = Quantization(np.array([1 / 128], np.float32), np.array([128]))
    mapping = pixel_mapping(graph, tensor, TensorFacts(mean=(0.0,), std=(1.0,)))
    assert (mapping.mean, mapping.std) == ((128.0,), (128.0,))


def test_names_of_a_known_family_tell_the_range() -> None:
    mapping = pixel_mapping(*network(mean=0.48, name="MobilenetV1/input"))
    assert (mapping.range, mapping.certainty) == ("-1..1", "implied")


def test_constants_that_are_no_numbers_leave_a_guess() -> None:
    assert found(("MUL", float("nan"))).certainty == "guessed"
    assert found(("MUL", 0.0)).certainty == "guessed"
    assert found(gain=float("nan")).certainty == "guessed"


def test_colours_that_come_first_are_guessed_to_be_normalised_as_imagenets() -> None:
    picture = Tensor("x", DType.FLOAT32, (1, 3, 96, 96))
    out = Tensor("y", DType.FLOAT32, picture.shape)
    mapping = pixel_mapping(Graph("g", [picture], [out], [_op("ABS", [picture], out)]), picture)
    assert (mapping.range, mapping.certainty) == ("imagenet", "guessed")
    assert mapping.alternative == "0..1"
