"""Float weights and biases that are computed at run time, beside constant ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from circlet import Session
from circlet.formats import dumps
from circlet.ir import DType, Tensor
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.backends.cpu.cases import Cases, Network, SideBySide, each_target
from tests.backends.cpu.harness import check_native, runnable
from tests.windows import conv2d_attrs, depthwise_attrs, transpose_conv_attrs

F32 = DType.FLOAT32


@dataclass(frozen=True)
class Case:
    """An op over an image and weights of these sizes; `lead` is a constant operand before them."""

    kind: str
    image: tuple[int, ...]
    weights: tuple[int, ...]
    filters: int
    attrs: object
    lead: tuple[int, ...] = ()


def _rows(image: Sequence[int], units: int, activation: str = "NONE") -> Case:
    attrs = FullyConnectedAttrs(activation, keep_num_dims=len(image) > 2)
    return Case("FULLY_CONNECTED", tuple(image), (units, image[-1]), units, attrs)


def _conv(image: tuple[int, ...], weights: tuple[int, ...], attrs: Conv2DAttrs) -> Case:
    return Case("CONV_2D", image, weights, weights[0], attrs)


def _depthwise(image: tuple[int, ...], weights: tuple[int, ...], step: int, padding: str) -> Case:
    attrs = depthwise_attrs(padding, step, step, weights[3] // image[3], "RELU6")
    return Case("DEPTHWISE_CONV_2D", image, weights, weights[3], attrs)


def _transposed(
    image: tuple[int, ...], weights: tuple[int, ...], sizes: tuple[int, int], step: int
) -> Case:
    attrs = transpose_conv_attrs("SAME", step, step, "RELU")
    lead = (image[0], *sizes, weights[0])
    return Case("TRANSPOSE_CONV", image, weights, weights[0], attrs, lead)


CASES = {
    "rows": _rows((64, 70), 33),
    "one_row": _rows((1, 33), 21, "RELU"),
    "rows_of_planes": _rows((2, 3, 5), 40, "RELU6"),
    "few_long_rows": _rows((6, 70), 33, "RELU_N1_TO_1"),
    "two_rows_of_planes": _rows((1, 2, 40), 5, "RELU"),
    "deep_rows": _rows((5, 2100), 9),
    "points": _conv((2, 5, 6, 19), (24, 1, 1, 19), conv2d_attrs("SAME", 1, 1)),
    "steps": _conv((2, 7, 6, 5), (10, 3, 3, 5), conv2d_attrs("SAME", 2, 1, "RELU6")),
    "dilated": _conv((1, 9, 9, 8), (17, 3, 2, 8), conv2d_attrs("VALID", 1, 1, "NONE", 2, 3)),
    "groups": _conv((1, 6, 5, 12), (20, 3, 3, 3), conv2d_attrs("SAME", 1, 1, "RELU")),
    "many_groups": _conv((1, 6, 5, 36), (72, 1, 3, 18), conv2d_attrs("SAME", 2, 2)),
    "window_of_one_channel": _conv((1, 9, 8, 1), (16, 5, 5, 1), conv2d_attrs("SAME", 2, 2)),
    "single": _depthwise((1, 7, 6, 5), (1, 3, 3, 5), 2, "SAME"),
    "single_wide": _depthwise((2, 7, 6, 37), (1, 3, 2, 37), 1, "SAME"),
    "maps": _depthwise((2, 7, 6, 5), (1, 3, 2, 10), 1, "VALID"),
    "many_maps": _depthwise((1, 5, 6, 2), (1, 3, 3, 70), 1, "SAME"),
    "doubled": _transposed((2, 5, 6, 7), (9, 3, 3, 7), (10, 12), 2),
    "gaps_between_taps": _transposed((1, 3, 4, 5), (6, 2, 2, 5), (9, 12), 3),
}


# Few rows over weights that are not packed: sums over lanes, which are others' in the last digits.
IN_LANES = ("one_row", "deep_rows", "few_long_rows", "two_rows_of_planes")


def graph_of(computed: tuple[bool, bool]) -> Network:
    """All cases with computed or constant weights and biases, and the inputs."""
    weights, bias = computed
    random, b = np.random.default_rng(3), builder()
    inputs: list[np.ndarray] = []

    def operand(sizes: tuple[int, ...], computed: bool) -> Tensor:
        values = random.standard_normal(sizes).astype(np.float32)
        if not computed:
            return b.constant(f"constant{len(b.graph.tensors)}", values)
        inputs.append(values)
        return b.input(f"in{len(inputs)}", F32, sizes)

    for name, case in CASES.items():
        x, w = operand(case.image, True), operand(case.weights, weights)
        operands = [x, w, operand((case.filters,), bias)]
        if case.lead:
            operands = [
                b.constant(f"{name} sizes", np.array(case.lead, np.int32)),
                w,
                x,
                operands[2],
            ]
        b.output(b.op(case.kind, operands, case.attrs, name=name))
    return b.build(), inputs


NONE_COMPUTED, ALL_COMPUTED = (False, False), (True, True)
COMPUTED = (NONE_COMPUTED, (True, False), (False, True), ALL_COMPUTED)
BY_THREADS = {threads: SideBySide(COMPUTED, graph_of, threads=threads) for threads in (1, 2, 3)}


@each_target
def test_computed_weights_give_the_bits_of_constant_ones(target: str) -> None:
    wanted = BY_THREADS[1].outputs(NONE_COMPUTED, target)
    for computed, threads in zip(COMPUTED[1:], BY_THREADS, strict=True):
        results = BY_THREADS[threads].outputs(computed, target)
        for name, got, constant in zip(CASES, results, wanted, strict=True):
            if name not in IN_LANES or not computed[0]:
                np.testing.assert_array_equal(got, constant, err_msg=name)


@each_target
def test_computed_weights_equal_the_records(target: str) -> None:
    BY_THREADS[1].check(ALL_COMPUTED, target)


@each_target
def test_a_convolution_that_winograd_would_compute_equals_the_record(target: str) -> None:
    cases = Cases()
    x, w = cases.data(F32, (1, 20, 20, 32)), cases.data(F32, (48, 3, 3, 32), scale=0.2)
    cases.op("CONV_2D", [x, w, cases.data(F32, (48,))], conv2d_attrs("SAME", 1, 1))
    cases.check(target, threads=2)


@each_target
def test_a_constant_image_meets_computed_weights(target: str) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    b, random = builder(), np.random.default_rng(5)
    image = random.standard_normal((1, 6, 7, 4)).astype(np.float32)
    shapes = (9, 3, 3, 4), (1, 3, 3, 4), (11, 4)
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    full, single, units = (b.input(f"w{i}", F32, shape) for i, shape in enumerate(shapes))
    x = b.constant("x", image)
    made = [
        b.op("CONV_2D", [x, full], conv2d_attrs("SAME", 2, 1)),
        b.op("DEPTHWISE_CONV_2D", [x, single], depthwise_attrs("SAME", 1, 1, 1)),
        b.op("FULLY_CONNECTED", [x, units], FullyConnectedAttrs(keep_num_dims=True)),
    ]
    check_native(b.output(*made).build(), inputs, target)


@each_target
def test_weights_may_lie_anywhere_in_the_arena(target: str) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    b, random = builder(), np.random.default_rng(6)
    w, x = b.input("w", F32, (8, 4, 5, 6)), b.input("x", F32, (1, 9, 9, 3))
    values = b.op("ABS", [w])
    size = b.constant("size", np.array([8, 4, 5, 3], np.int32))
    starts = (b.constant(f"at{at}", np.array([0, 0, 0, at], np.int32)) for at in (0, 3))
    halves = [b.op("SLICE", [values, start, size]) for start in starts]
    made = [b.op("CONV_2D", [x, half], conv2d_attrs("VALID", 1, 1)) for half in halves]
    inputs = [random.standard_normal(t.static_shape).astype(np.float32) for t in (w, x)]
    check_native(b.output(*made).build(), inputs, target)


@pytest.mark.parametrize(("rows", "units"), [(3, 40), (64, 7)])
def test_other_sizes_give_what_a_session_for_them_gives(rows: int, units: int) -> None:
    b = builder()
    x, w = b.input("x", F32, (16, 24)), b.input("w", F32, (32, 24))
    model = dumps(
        b.output(b.op("FULLY_CONNECTED", [x, w], FullyConnectedAttrs())).model(), "tflite"
    )
    shapes = {"x": (rows, 24), "w": (units, 24)}
    random = np.random.default_rng(7)
    given = [random.standard_normal(shape).astype(np.float32) for shape in shapes.values()]
    resized = Session(model, strict=True).resized(shapes)
    fresh = Session(model, strict=True, shapes=shapes)
    for got, wanted in zip(resized.run(given).values(), fresh.run(given).values(), strict=True):
        np.testing.assert_array_equal(got, wanted)
