from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.ir import DType, Graph, Quantization
from circlet.ops.build import builder
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import each_width_of
from tests.backends.cpu.harness import AND_V4, check_native, runnable
from tests.backends.cpu.q8_graphs import Conv, conv_graph, conv_op, random_bytes, rounding_to_even

U8 = DType.UINT8
UINT8_ZEROS = (17, 151, 120)

CASES = [
    Conv((1, 5, 6, 1), 1),
    Conv((1, 5, 6, 3), 5, stride=(2, 2), per_channel=True),
    Conv((1, 6, 5, 5), 17, activation="RELU6", per_channel=True),
    Conv((2, 4, 5, 17), 33, (1, 1), activation="RELU"),
    Conv((1, 7, 7, 16), 48, (1, 1), per_channel=True, zeros=(-128, 0, 127)),
    Conv((1, 7, 7, 64), 49, (1, 1), stride=(2, 2), zeros=(127, 0, -128)),
    Conv((1, 9, 8, 4), 24, (2, 3), dilation=(2, 2), per_channel=True),
    Conv((1, 9, 8, 3), 7, (3, 3), padding="VALID", dilation=(1, 3), bias=False),
    Conv((1, 12, 4, 1), 12, (10, 4), stride=(2, 1), activation="RELU_N1_TO_1"),
    Conv((1, 5, 5, 2), 3, (1, 1), padding="VALID"),
    Conv((1, 3, 3, 3), 4, (1, 1), padding="VALID", dtype=U8, zeros=(0, 255, 255)),
    Conv((1, 6, 6, 3), 16, stride=(2, 2), dtype=U8, zeros=(255, 0, 0), activation="RELU6"),
    Conv((1, 5, 7, 9), 35, dtype=U8, zeros=UINT8_ZEROS),
    Conv((2, 5, 7, 32), 35, (1, 1), dtype=U8, zeros=UINT8_ZEROS, activation="RELU"),
    Conv((1, 5, 7, 32), 20, dtype=U8, zeros=(3, 128, 9)),
    Conv((1, 2, 2, 600), 500, (1, 1), dtype=U8, zeros=UINT8_ZEROS),
    Conv((1, 4, 4, 8), 20, output_scale=0.00005),
    Conv((1, 4, 4, 8), 20, output_scale=0.0003, per_channel=True),
    Conv((1, 4, 4, 8), 20, output_scale=1e7),
    Conv((1, 7, 7, 8), 6, (7, 7), padding="VALID"),
    Conv((1, 9, 9, 5), 20, activation="RELU", zeros=(3, 0, 126)),
    Conv((1, 9, 9, 5), 20, activation="RELU6", zeros=(3, 0, -128), output_scale=7.0),
]


@each_width_of("first", (0, 1), [0], ("generic", "x86_64+v4"))
def test_convolutions_are_bit_identical_to_the_record(first: int, target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph, inputs = conv_graph(CASES[first::2], np.random.default_rng(7))
    check_native(graph, inputs, chosen)
    check_native(rounding_to_even(graph), inputs, chosen)


@pytest.mark.parametrize("name", AND_V4)
def test_last_blocks_of_any_width_are_stored_and_nothing_behind_them(name: str) -> None:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    widths = (*range(1, 16), 37, *range(65, 80), 100, 115)
    cases = [Conv((1, 3, 6, 4), width, (1, 1)) for width in widths]
    graph, inputs = conv_graph(cases, np.random.default_rng(5))
    check_native(graph, inputs, target)


@pytest.mark.parametrize("weight_zero", [0, 3])
def test_layers_share_a_kernel_whatever_their_last_block_is(weight_zero: int) -> None:
    zeros = 128, 128 + weight_zero, 120
    cases = [Conv((1, 4, 4, 8), width, (1, 1), dtype=U8, zeros=zeros) for width in range(49, 64)]
    graph, _ = conv_graph(cases, np.random.default_rng(5))
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    calls = compile_partition(whole, parse_target("x86_64+v4+avx512vnni"), 1).calls
    kernels = {call.kernel for call in calls if call and call.kernel.function == "conv_q8"}
    forms = {kernel.arguments[2] for kernel in kernels}
    assert len(kernels) == len(forms)


@pytest.mark.parametrize("dtype", [DType.INT8, U8])
def test_convolutions_hand_on_bordered_images(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    zeros = UINT8_ZEROS if dtype is U8 else (-3, 0, 5)
    first = Conv((1, 9, 9, 4), 20, dtype=dtype, zeros=zeros)
    graph, inputs = _chain([first, replace(first, taps=(1, 1)), replace(first, stride=(2, 2))], rng)
    check_native(graph, inputs)
    check_native(graph, inputs, threads=2)


def _chain(cases: list[Conv], rng: np.random.Generator) -> tuple[Graph, list[np.ndarray]]:
    made = builder()
    first = cases[0]
    tensor = made.input("x", first.dtype, first.image, Quantization.per_tensor(0.02, 4))
    for case in cases:
        sizes = tuple(size or 1 for size in tensor.shape)
        image = (sizes[0], sizes[1], sizes[2], sizes[3])
        tensor = conv_op(made, replace(case, image=image), tensor, rng)
    return made.output(tensor).build(), [random_bytes(rng, first.image, first.dtype)]
