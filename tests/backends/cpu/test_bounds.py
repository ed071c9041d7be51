"""Sizes that the data of a run decides: native code over bounds gives what the records give."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest

from circlet.errors import LimitError
from circlet.ir import DType, Model, Tensor
from circlet.ir.regions import reachable
from circlet.limits import DEFAULT_LIMITS
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.build import builder
from circlet.ops.reduce import ArgAttrs
from circlet.runtime.session import Session
from tests.backends.cpu.bound_nets import (
    ROWS,
    Net,
    axes,
    branches,
    compressed,
    detections,
    distinct,
    layers,
    movements,
    numbers,
    places,
    scattered,
    sorted_distinct,
    thinned,
)
from tests.backends.cpu.cases import each_width
from tests.backends.cpu.harness import runnable

KINDS: tuple[Callable[[Net], list[Tensor]], ...] = (
    places,
    movements,
    numbers,
    detections,
    branches,
    compressed,
    layers,
    axes,
    thinned,
    distinct,
    scattered,
    sorted_distinct,
)


def made(*kinds: Callable[[Net], list[Tensor]]) -> Model:
    net = Net()
    outputs = [tensor for kind in kinds for tensor in kind(net)]
    for number, tensor in enumerate(outputs):
        tensor.name = f"{number} {tensor.name}"
    model = net.b.output(*outputs).model()
    model.graphs = reachable(model.main)
    return model


@lru_cache(maxsize=2)
def sessions(target: str, threads: int) -> tuple[Session, Session]:
    model = made(*KINDS)
    return (
        Session(model, target=target, threads=threads),
        Session(model, backends=("reference",)),
    )


def given(chosen: int, seed: int = 0) -> list[np.ndarray]:
    """Inputs of which so many rows are chosen."""
    random = np.random.default_rng(seed)
    x = -random.uniform(0.1, 1, ROWS).astype(np.float32)
    x[random.permutation(ROWS)[:chosen]] *= -1
    return [x, random.normal(0, 0.5, (ROWS, 4)).astype(np.float32)]


def check(session: Session, reference: Session, inputs: list[np.ndarray]) -> None:
    results, wanted = session.run(inputs), reference.run(inputs)
    for name, array in wanted.items():
        assert results[name].shape == array.shape, name
        if array.dtype.kind == "f":
            np.testing.assert_allclose(results[name], array, rtol=1e-5, atol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(results[name], array, err_msg=name)


@each_width
@pytest.mark.parametrize("chosen", [0, 1, 3, 11, ROWS])
def test_native_results_have_the_sizes_and_elements_of_the_records(
    target: str, chosen: int
) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    session, reference = sessions(target, 1)
    assert {row["backend"] for row in session.placement} == {"cpu"}
    check(session, reference, given(chosen, chosen))


def test_a_session_goes_from_any_number_of_rows_to_any_other() -> None:
    session, reference = sessions("native", 1)
    for chosen in (ROWS, 0, 7, 0, 2, ROWS):
        check(session, reference, given(chosen, chosen))


def test_results_are_the_same_bits_for_any_number_of_threads() -> None:
    one, _ = sessions("native", 1)
    many = Session(made(*KINDS), threads=3)
    for chosen in (0, 5, ROWS):
        inputs = given(chosen)
        for first, second in zip(one.run(inputs).values(), many.run(inputs).values(), strict=True):
            assert first.tobytes() == second.tobytes()


def test_inputs_of_other_sizes_have_other_bounds() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None,))
    zero = b.constant("zero", np.float32(0))
    flags = b.op("GREATER", [x, zero], name="flags", dtype=DType.BOOL)
    found = b.op("WHERE", [flags], name="found", dtype=DType.INT64)
    session = Session(b.output(b.op("ADD", [found, found], name="twice")).model(), threads=1)
    for size in (6, 40, 1, 6, 40):
        values = np.random.default_rng(size).normal(size=size).astype(np.float32)
        wanted = 2 * np.flatnonzero(values > 0)[:, None]
        np.testing.assert_array_equal(session.run([values])["twice"], wanted)
    assert {row["backend"] for row in session.placement} == {"cpu"}


@pytest.mark.parametrize("middle", ["REDUCE_MAX|SUM|SOFTMAX|NEG", "GATHER|CONCATENATION|SHAPE"])
def test_counts_pass_from_backend_to_backend(middle: str) -> None:
    model = made(movements, numbers, branches)
    session = Session(model, backend_of={middle: "reference"}, threads=1)
    assert {row["backend"] for row in session.placement} == {"cpu", "reference"}
    reference = Session(model, backends=("reference",))
    for chosen in (0, 4, ROWS):
        check(session, reference, given(chosen))


def test_what_may_be_too_large_is_left_to_numpy_with_the_reason() -> None:
    limits = DEFAULT_LIMITS._replace(tensor_bytes=800)
    session = Session(made(places), limits=limits, threads=1)
    refused = [str(row["refused"]) for row in session.placement]
    assert any("might take" in why and "the limit is 800" in why for why in refused)


def test_a_search_along_an_axis_whose_size_a_run_decides_is_left_to_numpy() -> None:
    def best(net: Net) -> list[Tensor]:
        return [net.b.op("ARG_MAX", [net.rows, net.ints(0)], ArgAttrs("INT32"), dtype=DType.INT32)]

    session = Session(made(best), threads=1)
    reference = Session(made(best), backends=("reference",), threads=1)
    refused = [row["refused"] for row in session.placement if row["kind"] == "ARG_MAX"]
    assert "it looks along an axis whose size depends on the data" in str(refused)
    for chosen in (ROWS, 2):
        x, table = given(chosen)
        check(session, reference, [x, -np.abs(table)])


def test_what_may_do_too_much_is_left_to_numpy_with_the_reason() -> None:
    def wide(net: Net) -> list[Tensor]:
        weights = net.b.constant("weights", np.ones((4, 5000), np.float32))
        return [net.b.op("BATCH_MATMUL", [net.rows, weights], BatchMatMulAttrs())]

    limits = DEFAULT_LIMITS._replace(run_work=4_000_000, run_work_per_file_byte=0)
    session = Session(made(wide), limits=limits, threads=1)
    refused = [str(row["refused"]) for row in session.placement]
    assert any("might do" in why and "the limit is 250000" in why for why in refused)


def test_room_for_the_largest_results_is_charged_before_it_is_taken() -> None:
    def many(net: Net) -> list[Tensor]:
        return [net.b.op("MUL", [net.rows, net.rows]) for _ in range(40)]

    limits = DEFAULT_LIMITS._replace(memory_bytes=12_000, memory_per_file_byte=0)
    with pytest.raises(LimitError, match="its array, at the most"):
        Session(made(many), level="O0", limits=limits, threads=1, cache=False)


@pytest.mark.parametrize("level", ["O0", "O1", "Os"])
def test_every_level_gives_the_same(level: str) -> None:
    _, reference = sessions("native", 1)
    session = Session(made(*KINDS), level=level, threads=1)
    check(session, reference, given(9))
