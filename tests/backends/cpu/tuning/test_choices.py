"""Choices of lowerings: the least predicted time, or the answers that are wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

from circlet.backends.cpu.compile import CompiledPartition, compile_partition
from circlet.backends.cpu.lower.integers.depthwise_tiles import Blocks, Tiling
from circlet.backends.cpu.lower.products.tiles import Tile
from circlet.backends.cpu.tuning.choices import Choice, Choices, always_there, label_of, subject_of
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


def compiled(graph: Graph, choices: Choices | None = None) -> CompiledPartition:
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    return compile_partition(whole, parse_target("x86_64+v3"), 1, choices=choices)


def kernels(found: CompiledPartition) -> list[str]:
    return [name for _, name in found.steps if name not in _COPIES]


def wanted(found: Choices, name: str, label: str) -> Mapping[str, str]:
    (key,) = [key for key in found.questions if key.startswith(name)]
    return {key: label}


def test_taking_questions_down_changes_no_code() -> None:
    plain, asked = compiled(convolution()), compiled(convolution(), Choices())
    assert (plain.units, plain.plan, plain.constants) == (asked.units, asked.plan, asked.constants)


def test_the_method_is_obeyed_and_its_own_questions_come_up() -> None:
    choices = Choices()
    assert kernels(compiled(convolution(), choices)) == ["winograd_f32"]
    other = Choices(wanted(choices, "method", "conv_f32"))
    assert kernels(compiled(convolution(), other)) == ["conv_f32"]
    assert any(key.startswith("conv_f32") for key in other.questions)
    assert not any(key.startswith("winograd_f32") for key in other.questions)


@pytest.mark.parametrize("stride", [1, 2])
def test_every_tile_is_obeyed(stride: int) -> None:
    choices, name = Choices(), "winograd_f32" if stride == 1 else "conv_f32"
    compiled(convolution(stride=stride), choices)
    (question,) = [q for q in choices.questions.values() if q.name.startswith(name)]
    for label in question.labels[:5]:
        again = Choices({question.key: label})
        (call,) = [c for c in compiled(convolution(stride=stride), again).calls if c][-1:]
        pixels, vectors = map(int, re.findall(r"\d+", label))
        assert call.kernel.arguments[:2] == (pixels, vectors)
        assert again.questions[question.key].taken == label


def test_candidates_come_with_rising_costs_and_the_first_is_taken() -> None:
    choices = Choices()
    compiled(convolution(stride=2), choices)
    for question in choices.questions.values():
        assert list(question.costs) == sorted(question.costs)
        assert question.taken == question.labels[0]


def test_an_answer_that_is_no_candidate_is_ignored() -> None:
    choices = Choices()
    plain = compiled(convolution(), choices)
    odd = Choices(dict.fromkeys(choices.questions, "99x99"))
    assert compiled(convolution(), odd).units == plain.units


def test_equal_ops_share_a_question_and_others_do_not() -> None:
    (one,), (same,) = convolution().ops, convolution().ops
    (larger,), (strided,) = convolution(18).ops, convolution(stride=2).ops
    assert subject_of(one) == subject_of(same)
    assert len({subject_of(op) for op in (one, larger, strided)}) == 3


def test_for_another_size_the_first_that_is_there_is_taken() -> None:
    choice = Choice("tile", [3, 2, 1], float, lambda n: n < 3)
    assert choice.default(reuses=False) == 3
    assert choice.default(reuses=True) == 2
    assert Choice("tile", [3, 2], float, lambda n: False).default(reuses=True) == 3


def test_a_single_candidate_is_no_question() -> None:
    choices, (op,) = Choices(), convolution().ops
    assert choices.take(op, Choice("tile", [3], float, always_there), 3) == 3
    assert not choices.questions


def test_labels_are_numbers_and_words() -> None:
    assert label_of((6, 1.5)) == "6x1.5"
    assert label_of(Tile(6, 1.5)) == "pixels 6, vectors 1.5"
    blocks = Blocks(channels=40, whole=32, rest=8)
    assert label_of(Tiling(blocks, 2, 3, rest_pixels=1, slides=True)) == (
        "blocks 40x32x8, rows 2, pixels 3, rest pixels 1, slides yes"
    )
    assert label_of(("rows", (4, 2.0))) == "rowsx4x2"
