"""Golden outputs of real networks; `python -m tests.conformance` makes the page of it."""

from __future__ import annotations

import pytest

from tests.conformance import EXCEPTIONS, Subject, check, subjects
from tests.corpora import corpus, each

FAST = [
    "ad01_int8",
    "conv_fc_mnist_a8w8",
    "hello_world_float",
    "hello_world_int8",
    "kws_dscnn_int8",
    "mobilenet_v1_0.25_128_quant",
    "resnet8_cifar10_float",
    "vww_96_float",
]
RUNS = [("reference", 1), ("cpu", 1), ("cpu", 2)]
each_run = pytest.mark.parametrize(("backend", "threads"), RUNS, ids=["reference", "1", "2"])


def conforms(subject: Subject, backend: str, threads: int) -> str:
    row = check(subject, backend, threads)
    assert row.passed or subject.name in EXCEPTIONS, row.detail
    return row.detail


@pytest.mark.parametrize("model", FAST)
@each_run
def test_a_small_network_gives_the_golden_answers(model: str, backend: str, threads: int) -> None:
    corpus(f"golden/{model}.tflite.npz")
    detail = conforms(Subject(model), backend, threads)
    assert "case" in detail or ":" in detail
    assert "E-" not in detail


@pytest.mark.slow
@each("model", [subject.name for subject in subjects()])
@each_run
def test_a_network_gives_the_golden_answers(model: str, backend: str, threads: int) -> None:
    conforms(Subject(model), backend, threads)


@pytest.mark.slow
def test_single_operators_give_the_golden_answers() -> None:
    corpus("singleop/golden")
    rows = [check(subject, "reference", 1) for subject in subjects(kinds=["singleop"])]
    off = [f"{r.model}: {r.detail}" for r in rows if not r.passed and r.model not in EXCEPTIONS]
    assert rows
    assert not off


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXCEPTIONS))
def test_an_exception_is_still_needed(name: str) -> None:
    corpus("singleop")
    found = [s for s in subjects(kinds=["models", "singleop"]) if s.name == name]
    rows = [check(subject, *run) for subject in found for run in RUNS]
    assert not all(row.passed for row in rows)
