"""8-bit convolutions in groups of channels: one kernel call each, and which."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet import Session
from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.executable import Executable
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, Quantization, Tensor
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.layout import ConcatenationAttrs
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import QUANT, Cases, each_target
from tests.backends.cpu.harness import AND_V4, check_native, runnable
from tests.backends.cpu.q8_graphs import Conv, Inputs, conv_graph, rounding_to_even
from tests.fuzz.guard_page import guarded_copy
from tests.tiers import slow
from tests.windows import conv2d_attrs

U8 = DType.UINT8
UINT8_ZEROS = (17, 151, 120)
VNNI = "x86_64+v4+avx512vnni"

# Groups that fill registers of 256 bits with others, of 512 bits, and of neither.
FOURS = [
    Conv((1, 9, 11, 20), 20, groups=5, per_channel=True, activation="RELU"),
    Conv((2, 5, 7, 36), 36, groups=9, dtype=U8, zeros=(3, 128, 9)),
    Conv((1, 7, 6, 16), 16, groups=4, dtype=U8, zeros=UINT8_ZEROS, stride=(2, 2)),
    Conv((1, 6, 1, 24), 24, (3, 1), groups=12, padding="VALID"),
    Conv((1, 6, 30, 20), 20, (1, 5), groups=20, stride=(1, 2), per_channel=True),
    Conv((1, 5, 5, 28), 28, (1, 1), groups=7, padding="VALID", bias=False),
]
EIGHTS = [
    Conv((1, 9, 17, 24), 24, groups=3, per_channel=True, zeros=(-128, 0, 127)),
    Conv((1, 8, 9, 40), 40, (2, 3), groups=5, stride=(2, 2), dilation=(1, 2)),
    Conv((1, 7, 7, 32), 32, groups=4, dtype=U8, zeros=UINT8_ZEROS, activation="RELU6"),
    Conv((2, 6, 5, 16), 16, groups=2, padding="VALID", output_scale=0.0003),
]
OTHERS = [
    Conv((1, 10, 7, 48), 48, groups=3, per_channel=True),
    Conv((1, 12, 9, 64), 128, groups=4, stride=(2, 2), activation="RELU"),
    Conv((2, 7, 5, 21), 35, groups=7, dilation=(2, 2)),
    Conv((1, 9, 8, 24), 60, (3, 2), groups=2, stride=(3, 1), per_channel=True),
    Conv((1, 9, 6, 51), 96, groups=3, dtype=U8, zeros=UINT8_ZEROS),
    Conv((1, 9, 6, 10), 64, groups=2, dtype=U8, zeros=UINT8_ZEROS),
    Conv((1, 4, 6, 10), 14, groups=2, dtype=U8, zeros=UINT8_ZEROS, padding="VALID"),
    Conv((1, 5, 6, 48), 96, (1, 1), groups=3, stride=(2, 2)),
    Conv((1, 5, 6, 160), 40, (1, 1), groups=10, dtype=U8, zeros=(255, 0, 0)),
    Conv((1, 3, 4, 256), 256, groups=16, per_channel=True),
    Conv((1, 6, 7, 6), 18, groups=6),
    Conv((1, 7, 9, 64), 64, (3, 6), groups=16),
]
CASES = [*FOURS, *EIGHTS, *OTHERS]


def network(cases: list[Conv]) -> tuple[Graph, Inputs]:
    """Convolutions side by side, and inputs with memory behind them that may not be read."""
    graph, inputs = conv_graph(cases, np.random.default_rng(11))
    return graph, [guarded_copy(given) for given in inputs]


def _products(cases: list[Conv], target: str) -> list[str]:
    graph, _ = conv_graph(cases, np.random.default_rng(11))
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    calls = compile_partition(whole, parse_target(target), 1).calls
    names = [call.kernel.function for call in calls if call]
    return [name for name in names if name in ("conv_q8", "conv_groups_q8")]


@pytest.mark.parametrize("target", AND_V4)
def test_groups_are_bit_identical_to_the_record(target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph, inputs = network(CASES)
    check_native(graph, inputs, chosen)
    check_native(graph, inputs, chosen, threads=3)
    check_native(rounding_to_even(graph), inputs, chosen)


@each_target
@pytest.mark.parametrize("depth", [8, 16])
def test_groups_read_and_write_within_concatenations(depth: int, target: str) -> None:
    cases = Cases()

    def conv(image: Tensor) -> Tensor:
        channels = image.static_shape[3]
        weights = cases.values(DType.INT8, (channels, 3, 3, depth))
        inputs = [image, cases.constant(weights, Quantization.per_tensor(0.01))]
        return cases.op("CONV_2D", inputs, conv2d_attrs("VALID", 1, 1), quant=QUANT)

    parts = [conv(cases.data(DType.INT8, (2, 7, 9, 3 * depth))) for _ in range(2)]
    cases.outputs.clear()
    joined = cases.op("CONCATENATION", parts, ConcatenationAttrs(3), quant=QUANT)
    cases.outputs.clear()
    conv(joined)
    conv(parts[1])
    cases.check(target, threads=2)


@pytest.mark.parametrize(
    "target", ["x86_64+v3", VNNI, *slow("x86_64+v4", "generic", "aarch64", "aarch64+dotprod")]
)
def test_all_groups_are_one_call(target: str) -> None:
    assert len(_products(CASES, target)) == len(CASES)


@pytest.mark.parametrize(
    "target, narrow",
    [("x86_64+v3", FOURS), ("x86_64+v4", FOURS + EIGHTS), (VNNI, FOURS + EIGHTS), ("aarch64", [])],
)
def test_groups_within_registers_are_multiplied_together(target: str, narrow: list[Conv]) -> None:
    for case in CASES:
        wanted = "conv_groups_q8" if case in narrow else "conv_q8"
        assert _products([case], target) == [wanted]


@pytest.mark.parametrize("width", [33, 48, 100])
@pytest.mark.parametrize("case", [FOURS[0], EIGHTS[0]])
def test_another_width_takes_tiles_that_are_there(case: Conv, width: int) -> None:
    graph, _ = conv_graph(
        [replace(case, image=(1, 6, 64, case.image[3]))], np.random.default_rng(2)
    )
    first = Session(dumps(Model([graph]), "tflite"), strict=True)
    other = replace(case, image=(1, 6, width, case.image[3]))
    graph, inputs = conv_graph([other], np.random.default_rng(2))
    resized = first.resized({"x0": other.image})
    (one,), (two,) = first.opened.partitions, resized.opened.partitions
    assert isinstance(one.code, Executable) and isinstance(two.code, Executable)
    assert one.code.units == two.code.units
    (got,), (wanted,) = resized.run(inputs).values(), evaluate_graph(graph, inputs)
    np.testing.assert_array_equal(got, wanted)
