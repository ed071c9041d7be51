"""Broken and hostile files from loading to running: an answer or a coded error, within limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests import corpora

MEMORY_BYTES = 1 << 30
MUST_NOT_RUN = ("reject", "resource-limit")
each_backend = pytest.mark.parametrize("backend", ["cpu", "reference"])


@cache
def outcomes(backend: str) -> dict[str, dict[str, Any]]:
    """What every file does; all in one process, so that a crash is seen."""
    names = list(corpora.malformed())
    paths = [str(corpora.corpus(f"malformed/{name}")) for name in names]
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.run_many", backend, str(MEMORY_BYTES), *paths],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, f"died with {done.returncode}: {done.stdout[-400:]}{done.stderr}"
    results = map(json.loads, done.stdout.splitlines())
    return dict(zip(names, results, strict=True))


@each_backend
@corpora.each("name", corpora.malformed())
def test_a_broken_file_does_what_is_expected_of_it(name: str, backend: str) -> None:
    outcome, expected = outcomes(backend)[name], corpora.malformed()[name]["expect"]
    if expected in MUST_NOT_RUN:
        assert outcome["result"] != "runs"
    if expected == "run":
        assert outcome["result"] in ("runs", "E-UNSUPPORTED-OPS"), outcome["text"]
    assert outcome["s"] < 5


@corpora.each("name", corpora.malformed())
def test_both_backends_agree_on_what_is_wrong(name: str) -> None:
    native, numpy = (outcomes(backend)[name]["result"] for backend in ("cpu", "reference"))
    assert native == numpy
