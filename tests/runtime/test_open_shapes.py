"""Sizes that the file leaves open, and shapes that depend on the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlet.errors import InputError
from circlet.formats import dumps
from circlet.ir import DType, Model
from circlet.ops.build import builder
from circlet.options import Options
from circlet.runtime.loading import Opened
from circlet.runtime.opening import open_source
from circlet.runtime.session import Session
from tests.windows import conv2d_attrs

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "reference"])


def doubling() -> bytes:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, 3))
    return bytes(dumps(Model([b.output(b.op("ADD", [x, x], name="y")).build()]), "circle"))


def finding() -> bytes:
    """Where x > 0, after native work and before more of it."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (6,))
    twice = b.op("ADD", [x, x], name="twice")
    flags = b.op("GREATER", [twice, b.constant("zero", np.float32(0))], name="flags")
    found = b.op("WHERE", [flags], name="found")
    b.output(b.op("ADD", [found, found], name="sum"))
    return bytes(dumps(Model([b.output(b.op("NEG", [twice], name="negated")).build()]), "circle"))


def signal() -> bytes:
    """A convolution along an axis of open size."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, 1, None, 8))
    weights = np.random.default_rng(3).normal(0, 0.2, (16, 1, 5, 8)).astype(np.float32)
    y = b.op("CONV_2D", [x, b.constant("w", weights), None], conv2d_attrs("SAME"), name="y")
    return bytes(dumps(Model([b.output(y).build()]), "circle"))


def test_the_first_large_sizes_are_compiled_for_and_serve_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def opened(source: Any, options: Options, *more: Any) -> Opened:
        asked.append(options.shapes)
        return open_source(source, options, *more)

    monkeypatch.setattr("circlet.runtime.session.open_source", opened)
    session, judge = Session(signal(), threads=1), Session(signal(), backends=("reference",))
    asked.clear()
    for length in (1, 64, 100, 40, 1, 64, 300):
        x = np.random.default_rng(length).normal(0, 1, (1, 1, length, 8)).astype(np.float32)
        (got,), (want,) = session.run([x]).values(), judge.run([x]).values()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert asked == [(("x", (1, 1, 64, 8)),)]


@BACKENDS
def test_an_open_size_takes_any_number(backend: str) -> None:
    session = Session(doubling(), backends=(backend,), threads=1)
    assert session.inputs[0].open == (0,)
    for rows in (1, 4, 7, 4, 1):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(session.run([x])["y"], 2 * x)


@BACKENDS
def test_a_fixed_size_stays_fixed(backend: str) -> None:
    session = Session(doubling(), backends=(backend,), threads=1)
    with pytest.raises(InputError, match="shape"):
        session.run([np.zeros((1, 4), np.float32)])


@BACKENDS
@pytest.mark.parametrize("count", [0, 1, 6])
def test_a_shape_that_depends_on_data_comes_out_right(backend: str, count: int) -> None:
    session = Session(finding(), backends=(backend, "reference"), threads=1)
    x = np.where(np.arange(6) < count, 1, -1).astype(np.float32)
    results = session.run([x])
    wanted = 2 * np.arange(count, dtype=np.int64)[:, None]
    np.testing.assert_array_equal(results["sum"], wanted)
    np.testing.assert_array_equal(results["negated"], -2 * x)


def test_what_depends_on_data_is_native_where_something_bounds_it() -> None:
    session = Session(finding(), threads=1)
    assert {row["backend"] for row in session.placement} == {"cpu"}


def test_outputs_of_changing_shape_cannot_be_bound() -> None:
    with pytest.raises(InputError, match="depends on the data"):
        Session(finding(), threads=1).bind([np.zeros(6, np.float32)])
