"""Passes keep what they declare on public networks; on built ones, the harness sees to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.formats import load
from circlet.ir import Model
from circlet.ir.copy import copy_of
from circlet.limits import DEFAULT_LIMITS
from circlet.ops.verify import unsupported_ops, violations
from circlet.passes import (
    FILE_PIPELINES,
    Pass,
    PassLog,
    PassManager,
    file_pipeline,
    pass_names,
    pipeline,
)
from circlet.passes.contract import contract_of, difference
from circlet.passes.registry import PASSES
from circlet.passes.selection import charged
from circlet.sample import FOLDER
from tests.corpora import REPRESENTATIVE, ROOT, corpus, each, single_ops
from tests.evaluate import evaluate, random_inputs
from tests.passes.harness import source_names

ROUNDS = 8
MOST_ELEMENTS = 300_000
SMALL = {*REPRESENTATIVE, "mnist-8.onnx", "keypoint_classifier.onnx"} - {"while_dynamic.tflite"}
PUBLIC = sorted(
    f"{folder}/{path.name}"
    for folder in ("models", "light")
    for path in (ROOT / folder).glob("*.*")
    if path.suffix in (".tflite", ".circle", ".onnx")
)
Lists = tuple[tuple[Pass, ...], int]


def lists() -> Iterator[Lists]:
    """What runs over every network, and how often: the lists of levels, and all passes in turn."""
    yield file_pipeline("O2", "circle").passes, ROUNDS
    yield pipeline("O2").passes, ROUNDS
    yield PASSES.made(pass_names()), 1


def loaded(path: Path) -> Model:
    """A network that is sound, and whose operators are all known; others skip."""
    try:
        model = load(path)
    except CircletError as error:
        pytest.skip(f"the network is refused: {error.code}")
    if unsupported_ops(model) or next(violations(model), None) is not None:
        pytest.skip("some operator breaks the rules of its record, or has none")
    return model


def is_large(model: Model) -> bool:
    computed = (t for graph in model.graphs for op in graph.ops for t in op.outputs)
    return sum(tensor.elements for tensor in computed) > MOST_ELEMENTS


def results(model: Model) -> list[np.ndarray] | None:
    """What a network makes of random numbers; None where it takes no such."""
    try:
        return evaluate(model.main, random_inputs(model.main))
    except (CircletError, TypeError):  # it wants other numbers, or text
        return None


def faults(model: Model, passes: tuple[Pass, ...], rounds: int) -> list[str]:
    """Run passes over a network; where results are further away than the pass declares."""
    found, latest = [], None if is_large(model) else results(model)
    contracts = {item.name: contract_of(item) for item in passes}
    budget = DEFAULT_LIMITS.memory_budget(model.source_bytes)
    manager, log = PassManager(charged(passes, budget), check=True, rounds=rounds), PassLog()
    for report in manager.steps(model, log):
        if not report.rewrote or latest is None:
            continue
        if contracts[report.name].packs:
            latest = None
            continue
        now = results(model)
        assert now is not None
        apart = 0.0 if contracts[report.name].interface else difference(now, latest)
        if apart > contracts[report.name].tolerance:
            found.append(f"{report.name}: {apart}")
        latest = now
    if rounds > 1:
        again = PassManager(charged(passes, budget)).run(model)
        found += [] if log.settled else ["the list does not settle"]
        found += [f"{r.name} goes on" for r in again.reports if r.did_something]
    return found


def check(path: Path) -> None:
    """Every list over copies of one network."""
    given = loaded(path)
    sources = {name for graph in given.graphs for name in source_names(graph)}
    for passes, rounds in lists():
        model = copy_of(given)
        assert faults(model, passes, rounds) == []
        assert {name for graph in model.graphs for name in source_names(graph)} <= sources


@each("name", PUBLIC, SMALL, pytest.mark.release)
def test_passes_keep_their_promises_on_public_networks(name: str) -> None:
    check(corpus(name))


@pytest.mark.parametrize("name", ["digits_int8.circle", "digits_float.circle"])
def test_passes_keep_their_promises_on_the_sample(name: str) -> None:
    check(FOLDER / name)


@pytest.mark.release
def test_passes_keep_their_promises_on_single_operators() -> None:
    folder, broken, looked_at = corpus("singleop/models"), {}, 0
    for name in single_ops():
        try:
            check(folder / name)
            looked_at += 1
        except pytest.skip.Exception:
            continue
        except (AssertionError, CircletError) as error:
            broken[name] = str(error)[:300]
    assert broken == {} and looked_at > 300


def test_every_pass_is_run_by_the_harness_over_a_network_that_is_built_for_it() -> None:
    """Which holds it to its promises, whether there are public networks or not."""
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    apart = {"sparsify", "blockwise-to-nbits"}  # nothing evaluates packed constants
    using = "\n".join(text for text in texts if re.search(r"\brewritten\(", text))
    assert {name for name in pass_names() if f'"{name}"' not in using} == apart


def test_files_are_written_by_passes_that_make_better_files() -> None:
    for level in FILE_PIPELINES:
        for written in ("tflite", "circle"):
            passes = file_pipeline(level, written).passes
            assert [item.name for item in passes if contract_of(item).native_only] == []
            if level == "O1":
                inexact = {item.name for item in passes if not contract_of(item).is_exact}
                # What it replaces no .tflite file holds, so that none is written without it.
                assert inexact <= {"decompose-for-tflite"}


@pytest.mark.parametrize("name", pass_names())
def test_a_pass_that_promises_less_says_why(name: str) -> None:
    contract = contract_of(PASSES.make(name))
    assert contract.is_exact is not bool(contract.why)
    assert all(contract.grows.values())
