"""The Python of README.md runs, with the embedded sample in place of its network."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

import circlet
from circlet.sample import Sample
from tests.docs.how_to import ROOT

SAMPLE = Sample("float")
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(autouse=True)
def forget_fill_from() -> Iterator[None]:
    """Leave no custom operator behind."""
    yield
    circlet.register_op("FillFrom", infer=lambda *_: [], run=lambda *_: []).unregister()


def run_example(code: str) -> dict[str, object]:
    """The names that an example defines."""
    ready = code.replace("mobilenet_v2.tflite", str(SAMPLE.model_path)).replace(
        '"input"', '"image"'
    )
    names: dict[str, object] = {"image": SAMPLE.image(), "circlet": circlet}
    exec(compile(ready, "README.md", "exec"), names)
    return names


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int) -> None:
    names = run_example(EXAMPLES[number])
    scores = names.get("scores", np.zeros(0))
    assert isinstance(scores, np.ndarray)
    assert not scores.size or str(scores.argmax()) == SAMPLE.expected


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


def test_two_blocks_of_commands_are_marked_for_ci() -> None:
    blocks = re.findall(r"<!-- ci -->\n```sh\n(.*?)```", TEXT, re.DOTALL)
    assert [block.count("\n") for block in blocks] == [1, 1]
