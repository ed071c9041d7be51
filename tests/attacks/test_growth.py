"""Small networks that ask for much by calls, folding, storage or sizes run, or end in a code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks import growth
from tests.attacks.confined import MOST_RESIDENT_KIB, run_confined

IF, WHILE, COMPOSITE = "IF", "WHILE", "STABLEHLO_COMPOSITE"
RUNS, LIMIT = "", "E-LIMIT"
EITHER = f"{RUNS} {LIMIT}"
Case = tuple[Callable[[], bytes], str]

CALLS: dict[str, Case] = {
    "branches, 8 deep": (lambda: growth.nested([IF], 8), RUNS),
    "branches, 30 deep": (lambda: growth.nested([IF], 30), LIMIT),
    "branches, 30 deep, called once": (lambda: growth.nested([IF], 30, 1), RUNS),
    "branches, 40 deep": (lambda: growth.nested([IF], 40), LIMIT),
    "loops, 10 deep": (lambda: growth.nested([WHILE], 10), RUNS),
    "composites, 15 deep": (lambda: growth.nested([COMPOSITE], 15), RUNS),
    "composites, 30 deep, 3 calls each": (lambda: growth.nested([COMPOSITE], 30, 3), LIMIT),
    "all kinds, 9 deep": (lambda: growth.nested([IF, WHILE, COMPOSITE], 9), RUNS),
    "all kinds, 15 deep": (lambda: growth.nested([WHILE, COMPOSITE, IF], 15), LIMIT),
    "a graph with 100 callers": (lambda: growth.many_callers(100, 40), RUNS),
    "a large graph with 1000 callers": (lambda: growth.many_callers(1000, 1000), LIMIT),
    "64 sizes of operands": (lambda: growth.many_sizes(6), RUNS),
    "4096 sizes of operands": (lambda: growth.many_sizes(12), LIMIT),
}
MEMORY: dict[str, Case] = {
    "copies of a large constant": (lambda: growth.copies_of_constants(40, 4096), EITHER),
    "copies of a constant": (lambda: growth.copies_of_constants(400, 1000), RUNS),
    "a square of constants": (lambda: growth.outer_product(1 << 14), LIMIT),
    "sparse weights of 256 MiB": (lambda: growth.sparse(1, 8192), EITHER),
    "sparse weights of 1 GiB": (lambda: growth.sparse(4, 8192), LIMIT),
    "sparse weights of 64 MiB, 11 times": (lambda: growth.sparse(11, 4096), EITHER),
    "outputs of 4 GiB": (lambda: growth.wide_results(4, 1 << 28), LIMIT),
    "outputs of 800 MiB": (lambda: growth.wide_results(100, 1 << 21), LIMIT),
    "inputs of 4 GiB": (lambda: growth.wide_results(4, 1 << 28, "inputs"), LIMIT),
    "what lies between, 768 MiB": (lambda: growth.wide_results(3, 1 << 26, "between"), EITHER),
    "sums of bytes": (lambda: growth.wide_steps(1 << 27), EITHER),
    "weights of bytes, 200 MiB": (lambda: growth.sparse_bytes(2048, 5, 4096), EITHER),
}
CASES = CALLS | MEMORY

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("backend", ["cpu,reference", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_what_a_small_file_asks_for_is_bounded(name: str, backend: str, tmp_path: Path) -> None:
    make, expected = CASES[name]
    file = tmp_path / "network.tflite"
    file.write_bytes(make())
    assert file.stat().st_size < 1 << 18
    found = run_confined("run", file, "--backend", backend, "--no-cache", folder=tmp_path)
    assert found.status == (1 if found.code else 0), found.output
    assert found.code in expected.split(" "), found.output
    assert found.seconds <= 10
    assert found.resident_kib <= MOST_RESIDENT_KIB
