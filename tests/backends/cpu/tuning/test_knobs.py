"""Knobs of lowerings: the least predicted time, or the candidates that are wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf

import numpy as np
import pytest

from circlet.backends.cpu.compile import LoweredPartition, compile_partition
from circlet.backends.cpu.lower.integers.depthwise_tiles import Blocks, Tiling
from circlet.backends.cpu.lower.products.tiles import Tile
from circlet.backends.cpu.tuning.knobs import (
    Knob,
    KnobSettings,
    always_there,
    label_of,
    workload_of,
)
from circlet.ir import DType, Graph
from circlet.ops.build import builder
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.windows import conv2d_attrs

_COPIES = ("fill_border", "copy_rows")


def convolution(size: int = 16, channels: int = 32, stride: int = 1) -> Graph:
    random = np.random.default_rng(0)
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, size, size, channels))
    w = b.constant("w", random.standard_normal((32, 3, 3, channels)).astype(np.float32))
    return b.output(b.op("CONV_2D", [x, w, None], conv2d_attrs("SAME", stride, stride))).build()


def compiled(graph: Graph, settings: KnobSettings | None = None) -> LoweredPartition:
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    return compile_partition(whole, parse_target("x86_64+v3"), 1, settings=settings)


def kernels(found: LoweredPartition) -> list[str]:
    return [name for _, name in found.steps if name not in _COPIES]


def wanted(found: KnobSettings, name: str, label: str) -> Mapping[str, str]:
    (key,) = [key for key in found.knobs if key.startswith(name)]
    return {key: label}


def test_taking_questions_down_changes_no_code() -> None:
    plain, asked = compiled(convolution()), compiled(convolution(), KnobSettings())
    assert (plain.units, plain.plan, plain.constants) == (asked.units, asked.plan, asked.constants)


def test_the_method_is_obeyed_and_its_own_questions_come_up() -> None:
    settings = KnobSettings()
    assert kernels(compiled(convolution(), settings)) == ["winograd_f32"]
    other = KnobSettings(wanted(settings, "method", "conv_f32"))
    assert kernels(compiled(convolution(), other)) == ["conv_f32"]
    assert any(key.startswith("conv_f32") for key in other.knobs)
    assert not any(key.startswith("winograd_f32") for key in other.knobs)


@pytest.mark.parametrize("stride", [1, 2])
def test_every_tile_is_obeyed(stride: int) -> None:
    settings, name = KnobSettings(), "winograd_f32" if stride == 1 else "conv_f32"
    compiled(convolution(stride=stride), settings)
    (knob,) = [q for q in settings.knobs.values() if q.name.startswith(name)]
    for label in knob.labels[:5]:
        again = KnobSettings({knob.key: label})
        (call,) = [c for c in compiled(convolution(stride=stride), again).calls if c][-1:]
        pixels, vectors = map(int, re.findall(r"\d+", label))
        assert call.kernel.arguments[:2] == (pixels, vectors)
        assert again.knobs[knob.key].taken == label


def test_candidates_come_with_rising_costs_and_the_first_is_taken() -> None:
    settings = KnobSettings()
    compiled(convolution(stride=2), settings)
    for knob in settings.knobs.values():
        assert list(knob.costs) == sorted(knob.costs)
        assert knob.taken == knob.labels[0]


def test_an_answer_that_is_no_candidate_is_ignored() -> None:
    settings = KnobSettings()
    plain = compiled(convolution(), settings)
    odd = KnobSettings(dict.fromkeys(settings.knobs, "99x99"))
    assert compiled(convolution(), odd).units == plain.units


def test_equal_ops_share_a_question_and_others_do_not() -> None:
    (one,), (same,) = convolution().ops, convolution().ops
    (larger,), (strided,) = convolution(18).ops, convolution(stride=2).ops
    assert workload_of(one) == workload_of(same)
    assert len({workload_of(op) for op in (one, larger, strided)}) == 3


def test_for_another_size_the_first_that_is_there_is_taken() -> None:
    knob = Knob("tile", [3, 2, 1], float, lambda n: n < 3)
    assert knob.default(reuses=False) == 3
    assert knob.default(reuses=True) == 2
    assert Knob("tile", [3, 2], float, lambda n: False).default(reuses=True) == 3


def test_a_single_candidate_is_no_question() -> None:
    settings, (op,) = KnobSettings(), convolution().ops
    assert settings.take(op, Knob("tile", [3], float, always_there), 3) == 3
    assert not settings.knobs


def test_labels_are_numbers_and_words() -> None:
    assert label_of((6, 1.5)) == "6x1.5"
    assert label_of(Tile(6, 1.5)) == "pixels 6, vectors 1.5"
    blocks = Blocks(channels=40, whole=32, rest=8)
    assert label_of(Tiling(blocks, 2, 3, rest_pixels=1, slides=True)) == (
        "blocks 40x32x8, rows 2, pixels 3, rest pixels 1, slides yes"
    )
    assert label_of(("rows", (4, 2.0))) == "rowsx4x2"


def test_what_is_there_serves_unless_it_takes_far_longer() -> None:
    costs = {"fast": 10.0, "slower": 14.0, "slow": 16.0}

    def default(there: str, patience: float) -> str:
        knob = Knob("x", list(costs), costs.__getitem__, there.__eq__, patience)
        return knob.default(reuses=True)

    assert default("slower", 1.5) == "slower"
    assert default("slow", 1.5) == "fast"
    assert default("slow", inf) == "slow"
