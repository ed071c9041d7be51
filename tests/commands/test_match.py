"""Operators of two networks that do the same work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.commands.match import Matching, match
from circlet.formats import dumps, dumps_whole, load, load_whole
from circlet.ir import DType, Model, Op, Origin, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.passes import make, pipeline
from tests.passes.networks import F32, conv, image

SHAPE = (1, 4)


def chain(*names: str, prefix: str = "") -> Model:
    b = builder()
    x = b.input("x", DType.FLOAT32, SHAPE)
    for number, kind in enumerate(names):
        x = b.op(kind, [x], name=f"{prefix}{number}")
    return b.output(x).model()


def rows(found: Matching) -> list[tuple[list[str], list[str], str]]:
    return [(kinds(one.first), kinds(one.second), one.by) for one in found.matches]


def kinds(ops: list[Op]) -> list[str]:
    return [op.kind for op in ops]


def conv_relu() -> Model:
    b = builder()
    return b.output(b.op("RELU", [conv(b, image(b, F32))], name="relu")).model()


def test_fused_operators_are_those_that_they_were_made_of() -> None:
    optimised = conv_relu()
    pipeline("O2").run(optimised)
    found = match(conv_relu(), load(dumps(optimised, "tflite")))
    assert rows(found) == [(["CONV_2D", "RELU"], ["CONV_2D"], "origin")]
    back = match(optimised, conv_relu())
    assert rows(back) == [(["CONV_2D"], ["CONV_2D", "RELU"], "origin")]
    assert not (found.only_first or found.only_second or back.only_first or back.only_second)


def test_names_do_where_origins_say_nothing() -> None:
    first, second = chain("TANH", "RELU"), chain("TANH", "RELU")
    for number, op in enumerate(second.main.ops):
        op.origin = Origin.of(number, f"lost {number}")
    assert rows(match(first, second)) == [
        (["TANH"], ["TANH"], "name"),
        (["RELU"], ["RELU"], "name"),
    ]


def product(b: Builder, x: Tensor, name: str, seed: int) -> Tensor:
    weights = np.random.default_rng(seed).random((4, 4), np.float32)
    return b.op("FULLY_CONNECTED", [x, b.constant(f"{name} weights", weights), None], name=name)


def products(names: list[str], seeds: list[int]) -> Model:
    b = builder()
    x = b.input("x", DType.FLOAT32, SHAPE)
    made = [product(b, x, name, seed) for name, seed in zip(names, seeds, strict=True)]
    return b.output(*made).model()


def test_weights_do_where_nothing_has_the_same_name() -> None:
    found = match(products(["a", "b"], [1, 2]), products(["c", "d"], [2, 1]))
    assert [(m.first[0].name, m.second[0].name, m.by) for m in found.matches] == [
        ("a", "d", "weights"),
        ("b", "c", "weights"),
    ]


def test_the_place_does_where_nothing_else_does() -> None:
    found = match(chain("TANH", "RELU", "TANH"), chain("TANH", "RELU", "TANH", prefix="other "))
    assert [(m.first[0].name, m.second[0].name, m.by) for m in found.matches] == [
        ("0", "other 0", "place"),
        ("1", "other 1", "place"),
        ("2", "other 2", "place"),
    ]


def test_what_one_network_has_more_is_left_over() -> None:
    found = match(chain("TANH", "RELU"), chain("TANH", "RELU", "ABS"))
    assert [op.kind for op in found.only_second] == ["ABS"]
    assert not found.only_first


def test_a_long_chain_is_matched_in_linear_time() -> None:
    long = ["TANH", "ABS"] * 500
    found = match(chain(*long), chain(*long, prefix="other "))
    assert len(found.matches) == len(long)


def test_what_an_operator_was_split_into_is_one_group() -> None:
    b = builder()
    y = conv(b, image(b, F32))
    (op,) = b.graph.ops
    op.attrs = replace(op.attrs, padding=((1, 2), (0, 1)))  # type: ignore[type-var]
    y.shape = (1, 7, 5, 4)
    split = b.output(y).model()
    whole = load_whole(dumps_whole(split))
    make("split-padding").run(split.main)
    assert rows(match(whole, split)) == [(["CONV_2D"], ["PAD", "CONV_2D"], "origin")]
    assert rows(match(split, whole)) == [(["PAD", "CONV_2D"], ["CONV_2D"], "origin")]
