"""Convolutions in groups of few channels: which kernel, and its results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.ir import DType, Graph
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.build import builder
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Network, SideBySide, each_width
from tests.backends.cpu.harness import run_native
from tests.windows import conv2d_attrs


class Groups(NamedTuple):
    """An image, channels of a group, and windows; what is added, if anything."""

    image: tuple[int, int, int, int]
    depth: int
    window: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: str = "SAME"
    adds: bool = False
    filters: int | None = None
    dilation: int = 1


CASES = {
    "fours": Groups((1, 7, 9, 32), 4),
    "fours, a last register that overlaps": Groups((2, 6, 11, 36), 4, adds=True),
    "fours, two apart": Groups((1, 9, 13, 64), 4, stride=2),
    "twos": Groups((1, 5, 6, 48), 2, (3, 5)),
    "twos of one row": Groups((2, 1, 17, 16), 2, (1, 3), padding="VALID"),
    "points": Groups((1, 4, 3, 32), 4, (1, 1)),
    "narrow images": Groups((1, 8, 1, 32), 4),
    "no border": Groups((1, 9, 9, 32), 4, padding="VALID", adds=True),
}
WIDE = {
    "eights": Groups((1, 7, 9, 64), 8),
    "eights, two apart": Groups((2, 8, 15, 32), 8, stride=2, adds=True),
}
OTHERS = {
    "more filters than channels": Groups((1, 7, 9, 32), 4, filters=64),
    "threes": Groups((1, 7, 9, 48), 3),
    "dilated": Groups((1, 9, 9, 32), 4, dilation=2),
    "less than a register": Groups((1, 7, 9, 4), 2),
}


def _values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network(case: Groups) -> Network:
    """The convolution, behind which something is added where the case asks for it."""
    b, inputs = builder(), [_values(1, *case.image)]
    filters = case.filters or case.image[3]
    x = b.input("x", DType.FLOAT32, case.image)
    w = b.constant("w", _values(2, filters, *case.window, case.depth) / np.float32(case.depth))
    activation = "NONE" if case.adds else "RELU6"
    steps = (case.stride,) * 2
    attrs = conv2d_attrs(case.padding, *steps, activation, case.dilation, case.dilation)
    y = b.op("CONV_2D", [x, w, b.constant("b", _values(3, filters))], attrs)
    if case.adds:
        inputs.append(_values(4, *y.static_shape))
        y = b.op("ADD", [y, b.input("z", DType.FLOAT32, y.static_shape)], AddAttrs("RELU"))
    return b.output(y).build(), inputs


def _kernels(graph: Graph, target: str) -> set[str]:
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    return {name for _, name in compile_partition(whole, parse_target(target), 1).steps}


ALL = {**CASES, **WIDE, **OTHERS}
GROUPS = SideBySide(ALL, lambda case: network(ALL[case]), threads=2)


@each_width
@pytest.mark.parametrize("case", ALL)
def test_groups_equal_the_record(case: str, target: str) -> None:
    GROUPS.check(case, target)


@pytest.mark.parametrize("target", ["x86_64+v3", "x86_64+v4"])
@pytest.mark.parametrize("case", ALL)
def test_groups_within_registers_are_multiplied_together(case: str, target: str) -> None:
    """Eight channels fill a register of 256 bits: Winograd's method, or group by group."""
    takes = case in CASES or (case in WIDE and target == "x86_64+v4")
    assert ("conv_groups_f32" in _kernels(network(ALL[case])[0], target)) is takes


def test_registers_of_one_group_stay_apart() -> None:
    graph, _ = network(Groups((1, 7, 9, 32), 4))
    assert "conv_groups_f32" not in _kernels(graph, "aarch64")


def test_what_is_not_finite_stays_in_its_group() -> None:
    graph, (x,) = network(Groups((1, 5, 5, 32), 4))
    x[..., 5] = np.nan
    (made,) = run_native(graph, [x])
    assert np.isnan(made).any(axis=(0, 1, 2)).nonzero()[0].tolist() == [4, 5, 6, 7]
