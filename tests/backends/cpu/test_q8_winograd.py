"""8-bit convolutions of 3 x 3 by Winograd's method: where it is taken, and that it is exact."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.tuning.knobs import KnobSettings
from circlet.ir import DType, Graph, Quantization
from circlet.ops.build import builder
from circlet.plan.partition import partition
from circlet.target.targets import Target, parse_target
from tests.backends.cpu.cases import Network, SideBySide
from tests.backends.cpu.harness import AND_V4, check_native, runnable
from tests.backends.cpu.q8_graphs import Conv, conv_graph, rounding_to_even
from tests.windows import conv2d_attrs

U8 = DType.UINT8
ZEROS = (17, 151, 120)
WINOGRAD = "winograd_q8"
TILED_WIDTH = 8  # of the least images that tiles of AMX take


def takes_winograd(target: Target, width: int) -> bool:
    """Tiles of AMX are faster where images fill them, and without AVX2 there is no kernel."""
    is_tiled = target.has("amx_int8") and width >= TILED_WIDTH
    return target.has("avx2") and not is_tiled


CASES = {
    "whole_patches": Conv((1, 16, 16, 32), 32, activation="RELU", per_channel=True),
    "last_patches_overlap": Conv((1, 15, 19, 48), 48, per_channel=True),
    "valid": Conv((1, 17, 21, 32), 32, padding="VALID"),
    "images": Conv((3, 11, 12, 64), 16, bias=False),
    "last_channels_overlap": Conv((1, 16, 15, 44), 29, activation="RELU6"),
    "few_filters": Conv((1, 20, 20, 32), 13),
    "images_of_one_patch": Conv((9, 4, 4, 64), 64),
    "many_weights": Conv((2, 14, 14, 80), 144),
    "unsigned": Conv((1, 16, 16, 32), 35, dtype=U8, zeros=ZEROS),
    "unsigned_overlap": Conv((1, 11, 12, 60), 48, dtype=U8, zeros=ZEROS, activation="RELU"),
    "large_steps": Conv((1, 8, 8, 32), 32, output_scale=1e4),
    "small_steps": Conv((1, 8, 8, 32), 32, output_scale=0.0003, per_channel=True),
}


def _kernels(
    graph: Graph, target: str = "x86_64+v3", settings: KnobSettings | None = None
) -> set[str]:
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    compiled = compile_partition(whole, parse_target(target), 1, settings=settings)
    return {name for _, name in compiled.steps} & {"conv_q8", WINOGRAD}


def _network(case: str) -> Network:
    return conv_graph([CASES[case]], np.random.default_rng(7))


CONVOLUTIONS = [SideBySide(CASES, _network, threads=threads) for threads in (1, 2)]


@pytest.mark.parametrize("target", AND_V4)
@pytest.mark.parametrize("case", CASES)
def test_results_are_bit_identical_to_the_record(case: str, target: str) -> None:
    graph, _ = _network(case)
    is_taken = takes_winograd(parse_target(target), graph.outputs[0].static_shape[2])
    assert (_kernels(graph, target) == {WINOGRAD}) == is_taken
    for convolutions in CONVOLUTIONS:
        convolutions.check(case, target)


def test_results_may_be_rounded_as_onnx_runtime_does() -> None:
    cases = [case for case in CASES.values() if case.image[0] == 1]
    graph, inputs = conv_graph(cases, np.random.default_rng(7))
    target = runnable("x86_64+v3")
    if target is None:
        pytest.skip("this CPU cannot run x86_64+v3")
    assert _kernels(rounding_to_even(graph)) == {WINOGRAD}
    check_native(graph, inputs, target)


@pytest.mark.parametrize("target", AND_V4)
def test_the_largest_sums_that_are_taken_are_exact(target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    images = np.stack([np.full((8, 8, 229), value) for value in (-128, 127)]).astype(np.int8)
    graph = _uniform(229)
    assert (_kernels(graph, target) == {WINOGRAD}) == takes_winograd(chosen, 8)
    check_native(graph, [images], chosen)


@pytest.mark.parametrize(
    "case",
    [
        Conv((1, 16, 16, 32), 32, (1, 1)),
        Conv((1, 16, 16, 32), 32, (5, 5)),
        Conv((1, 16, 16, 32), 32, stride=(2, 2)),
        Conv((1, 16, 16, 32), 32, dilation=(2, 2)),
        Conv((1, 3, 16, 32), 32),
        Conv((1, 16, 16, 8), 32),
        Conv((1, 8, 8, 256), 256),
        Conv((1, 16, 16, 32), 32, dtype=U8, zeros=(17, 255, 120)),
    ],
)
def test_other_convolutions_are_direct(case: Conv) -> None:
    graph, _ = conv_graph([case], np.random.default_rng(7))
    assert _kernels(graph) == {"conv_q8"}


def test_sums_beyond_its_range_are_direct() -> None:
    assert _kernels(_uniform(230)) == {"conv_q8"}


def test_patches_that_are_mostly_empty_are_direct_unless_they_are_asked_for() -> None:
    target, settings = "x86_64+v4+avx512vnni", KnobSettings()
    graph, _ = conv_graph([Conv((1, 5, 5, 64), 64)], np.random.default_rng(7))
    assert _kernels(graph, target, settings) == {"conv_q8"}
    (key,) = (key for key in settings.knobs if key.startswith("method"))
    assert _kernels(graph, target, KnobSettings({key: WINOGRAD})) == {WINOGRAD}


def _uniform(channels: int) -> Graph:
    """Sums as far from zero as int8 makes them."""
    made = builder()
    image = made.input("x", DType.INT8, (2, 8, 8, channels), Quantization.per_tensor(1.0, 0))
    values = np.full((16, 3, 3, channels), 127, np.int8)
    values[::2] = -127
    weights = made.constant("w", values, Quantization.per_tensor(1.0, 0))
    quant = Quantization.per_tensor(300_000.0, 1)
    y = made.op("CONV_2D", [image, weights, None], conv2d_attrs("SAME", 1, 1), quant=quant)
    return made.output(y).build()
