"""Layers that add a residual connection before they store: what fuses, and its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.passes import native_pipeline
from circlet.ir import DType, Graph, Tensor
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.shape import ReshapeAttrs
from tests.backends.cpu.cases import Cases, SideBySide
from tests.backends.cpu.harness import TARGETS, run_native
from tests.windows import conv2d_attrs

F32 = DType.FLOAT32
Network = Callable[[Cases], object]


def _conv(
    cases: Cases, x: Tensor, filters: int, size: int = 3, fused: str = "NONE", stride: int = 1
) -> Tensor:
    channels = x.static_shape[3]
    weights = cases.values(F32, (filters, size, size, channels), 1 / (size * channels**0.5))
    operands = [x, cases.constant(weights), cases.constant(cases.values(F32, (filters,)))]
    attrs = conv2d_attrs("SAME", stride, stride, fused, 1, 1)
    return cases.builder.op("CONV_2D", operands, attrs)


def _image(cases: Cases, *shape: int) -> Tensor:
    return cases.data(F32, shape, scale=1.0)


def _pad(cases: Cases, x: Tensor, *amounts: Sequence[int]) -> Tensor:
    return cases.builder.op("PAD", [x, cases.constant(np.array(amounts, np.int32))])


def _same(cases: Cases) -> None:
    x = _image(cases, 2, 9, 11, 20)
    cases.op("ADD", [_conv(cases, x, 20, 1), x], AddAttrs("RELU"))


def _swapped(cases: Cases) -> None:
    x = _image(cases, 1, 9, 11, 20)
    cases.op("ADD", [x, _conv(cases, x, 20, 5)], AddAttrs("RELU6"))


def _winograd(cases: Cases) -> None:
    x = _image(cases, 1, 14, 13, 40)
    cases.op("ADD", [x, _conv(cases, x, 40)], AddAttrs("RELU"))


def _few_filters(cases: Cases) -> None:
    x = _image(cases, 1, 14, 21, 4)
    cases.op("ADD", [_conv(cases, x, 4, 7), x], AddAttrs())


def _more_channels(cases: Cases) -> None:
    x = _image(cases, 2, 8, 9, 21)
    padded = _pad(cases, x, (0, 0), (0, 0), (0, 0), (0, 24))
    cases.op("ADD", [padded, _conv(cases, x, 45, 1)], AddAttrs("RELU"))


def _more_channels_winograd(cases: Cases) -> None:
    x = _image(cases, 1, 12, 12, 24)
    padded = _pad(cases, x, (0, 0), (0, 0), (0, 0), (0, 40))
    cases.op("ADD", [_conv(cases, x, 64), padded], AddAttrs("RELU"))


def _one_pixel(cases: Cases) -> None:
    x, pixel = _image(cases, 2, 6, 7, 8), _image(cases, 2, 1, 1, 33)
    cases.op("ADD", [_conv(cases, x, 33, 1), pixel], AddAttrs("RELU"))


def _one_pixel_for_all(cases: Cases) -> None:
    x, pixel = _image(cases, 2, 6, 7, 8), _image(cases, 1, 1, 1, 33)
    cases.op("ADD", [_conv(cases, x, 33, 1), pixel], AddAttrs("RELU"))


def _pixels_in_a_row(cases: Cases) -> None:
    x, pixel = _image(cases, 3, 1, 1, 20), _image(cases, 3, 1, 1, 24)
    cases.op("ADD", [_conv(cases, x, 24, 1), pixel], AddAttrs("RELU"))


def _between_borders(cases: Cases) -> None:
    x = _conv(cases, _image(cases, 1, 10, 11, 6), 12)
    y = cases.builder.op("ADD", [_conv(cases, x, 12), x], AddAttrs("RELU"))
    cases.outputs.append(_conv(cases, y, 5))


def _rows(cases: Cases) -> None:
    x = _image(cases, 19, 40)
    weights = cases.constant(cases.values(F32, (40, 40), 0.2))
    attrs = FullyConnectedAttrs(keep_num_dims=True)
    cases.op("ADD", [cases.builder.op("FULLY_CONNECTED", [x, weights], attrs), x], AddAttrs("RELU"))


def _full(cases: Cases, x: Tensor, units: int, depth: int) -> Tensor:
    weights = cases.constant(cases.values(F32, (units, depth), 0.2))
    keeps = x.static_shape[-1] == depth
    attrs = FullyConnectedAttrs(keep_num_dims=keeps)
    return cases.builder.op("FULLY_CONNECTED", [x, weights], attrs)


def _pixels_between_borders(cases: Cases) -> None:
    x = _conv(cases, _image(cases, 2, 9, 10, 6), 12)
    wide = _full(cases, _conv(cases, x, 12, 5), 30, 12)
    y = cases.builder.op("ADD", [_full(cases, wide, 12, 30), x], AddAttrs("RELU"))
    cases.outputs.append(_conv(cases, y, 5))


def _pixels_of_a_bordered_image(cases: Cases) -> None:
    x, y = _image(cases, 1, 6, 7, 12), _image(cases, 1, 6, 7, 12)
    x = cases.builder.op("ABS", [x])
    total = cases.builder.op("ADD", [_full(cases, x, 12, 12), y], AddAttrs("RELU"))
    joined = cases.builder.op("CONCATENATION", [total, x], ConcatenationAttrs(3))
    cases.outputs.append(_conv(cases, joined, 8))


def _more_channels_of_pixels(cases: Cases) -> None:
    x = _image(cases, 1, 5, 6, 8)
    padded = _pad(cases, x, (0, 0), (0, 0), (0, 0), (0, 13))
    cases.op("ADD", [_full(cases, x, 21, 8), padded], AddAttrs())


def _an_image_as_a_row(cases: Cases) -> None:
    x = _conv(cases, _image(cases, 3, 4, 5, 6), 6)
    y = cases.builder.op("ABS", [_conv(cases, x, 2)])
    shape = cases.constant(np.array([3, 40], np.int32))
    row = cases.builder.op("RESHAPE", [y, shape], ReshapeAttrs((3, 40)))
    total = cases.builder.op("ADD", [_full(cases, x, 40, 120), row], AddAttrs())
    cases.outputs.append(total)


NETWORKS: dict[str, Network] = {
    "same": _same,
    "swapped": _swapped,
    "winograd": _winograd,
    "few_filters": _few_filters,
    "more_channels": _more_channels,
    "more_channels_winograd": _more_channels_winograd,
    "one_pixel": _one_pixel,
    "one_pixel_for_all": _one_pixel_for_all,
    "pixels_in_a_row": _pixels_in_a_row,
    "between_borders": _between_borders,
    "rows": _rows,
    "pixels_between_borders": _pixels_between_borders,
    "pixels_of_a_bordered_image": _pixels_of_a_bordered_image,
    "more_channels_of_pixels": _more_channels_of_pixels,
    "an_image_as_a_row": _an_image_as_a_row,
}


def _network(name: str) -> tuple[Graph, list[np.ndarray]]:
    cases = Cases()
    NETWORKS[name](cases)
    return cases.graph(), cases.inputs


def _fused(graph: Graph) -> Graph:
    made = replace(graph, ops=list(graph.ops))
    native_pipeline("O2", check=True).run(made)
    return made


def _kinds(cases: Cases) -> list[str]:
    return [op.kind for op in _fused(cases.graph()).ops]


def _fused_network(name: str) -> tuple[Graph, list[np.ndarray]]:
    graph, inputs = _network(name)
    return _fused(graph), inputs


FUSED = SideBySide(NETWORKS, _fused_network, threads=2)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_sum_equals_its_parts(name: str, target: str) -> None:
    fused, inputs = _fused_network(name)
    kinds = [op.kind for op in fused.ops]
    assert "FUSED_RESIDUAL" in kinds and not {"ADD", "PAD"} & set(kinds)
    (wanted,) = evaluate_graph(_network(name)[0], inputs)
    (got,) = FUSED.outputs(name, target)
    assert np.abs(got - wanted).max() <= 1e-5 * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("name", ["same", "more_channels", "rows"])
def test_sum_is_bit_identical_to_its_parts(name: str) -> None:
    graph, inputs = _network(name)
    (apart,), (together,) = (run_native(g, inputs) for g in (graph, _fused(graph)))
    assert apart.tobytes() == together.tobytes()


def test_of_two_layers_the_later_one_adds() -> None:
    cases = Cases()
    x = _image(cases, 1, 8, 8, 16)
    first, second = _conv(cases, x, 32, 1, stride=2), _conv(cases, x, 32, 3, stride=2)
    cases.op("ADD", [first, second], AddAttrs("RELU"))
    graph = _fused(cases.graph())
    assert [op.kind for op in graph.ops] == ["CONV_2D", "FUSED_RESIDUAL"]
    assert graph.ops[1].inputs[3] is first


def test_sum_that_others_read_before_the_addition_stays() -> None:
    cases = Cases()
    x = _image(cases, 1, 8, 8, 16)
    y = _conv(cases, x, 16)
    cases.outputs.append(y)
    cases.op("ADD", [y, x], AddAttrs())
    assert "FUSED_RESIDUAL" not in _kinds(cases)


def test_layer_that_clamps_before_the_addition_stays() -> None:
    cases = Cases()
    x = _image(cases, 1, 8, 8, 16)
    cases.op("ADD", [_conv(cases, x, 16, fused="RELU"), x], AddAttrs())
    assert "FUSED_RESIDUAL" not in _kinds(cases)


def test_layer_added_to_itself_stays() -> None:
    cases = Cases()
    y = _conv(cases, _image(cases, 1, 8, 8, 16), 16)
    cases.op("ADD", [y, y], AddAttrs())
    assert "FUSED_RESIDUAL" not in _kinds(cases)


@pytest.mark.parametrize(
    "amounts",
    [((0, 0), (0, 0), (0, 0), (1, 7)), ((0, 0), (1, 0), (0, 0), (0, 8))],
    ids=["before", "rows"],
)
def test_padding_of_another_kind_stays(amounts: Sequence[Sequence[int]]) -> None:
    cases = Cases()
    rows = 8 - amounts[1][0]
    padded = _pad(cases, _image(cases, 1, rows, 8, 8), *amounts)
    x = _image(cases, 1, 8, 8, 16)
    cases.op("ADD", [_conv(cases, x, 16), padded], AddAttrs())
    assert "PAD" in _kinds(cases)


def test_constant_addend_stays() -> None:
    cases = Cases()
    y = _conv(cases, _image(cases, 1, 8, 8, 16), 16)
    cases.op("ADD", [y, cases.constant(cases.values(F32, (1, 8, 8, 16)))], AddAttrs())
    assert "FUSED_RESIDUAL" not in _kinds(cases)
