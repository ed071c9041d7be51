"""Where the public test data lie; a test that needs an absent file skips with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2] / "shared" / "corpora"


def corpus(path: str) -> Path:
    """A file or folder of the corpora; skips the test where it is absent."""
    found = ROOT / path
    if not found.exists():
        pytest.skip(f"no corpus at {found}")
    return found


def models() -> list[str]:
    """File names of the real .tflite models, for `parametrize`; empty without the corpora."""
    return sorted(path.name for path in (ROOT / "models").glob("*.tflite"))


def single_ops() -> list[str]:
    """File names of the small .tflite files of one or a few operators."""
    return sorted(path.name for path in (ROOT / "singleop" / "models").glob("*.tflite"))


def index(path: str = "index.json") -> dict[str, Any]:
    """One of the corpora's indexes."""
    parsed: dict[str, Any] = json.loads(corpus(path).read_text())
    return parsed


def malformed() -> dict[str, dict[str, Any]]:
    """The malformed .tflite files by name; empty without the corpora."""
    if not (ROOT / "malformed").exists():
        return {}
    cases: dict[str, dict[str, Any]] = index("malformed/index.json")["cases"]
    return {name: case for name, case in cases.items() if name.endswith(".tflite")}
