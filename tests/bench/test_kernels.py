"""`python -m bench kernels`: rows of the table of kernels, timed in the networks they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import kernels
from circlet.backends.cpu.tuning.variants import VARIANTS
from tests.corpora import ROOT, corpus


def test_a_row_is_timed_in_its_network() -> None:
    corpus(VARIANTS["lut16"].network)
    text = kernels.told(VARIANTS["lut16"], ROOT, 1, 0.01)
    assert float(text.split(" us")[0]) > 0
    assert VARIANTS["lut16"].network.rpartition("/")[2] in text


@pytest.mark.parametrize(
    ("name", "target", "why"),
    [
        ("embedding_lookup", "x86_64", "no public network"),
        ("conv_q8", "aarch64+neon", "lacks architecture aarch64"),
        ("conv_bf16", "generic", "bf16 precision only"),
        ("conv_q8", "generic", "there is no"),
    ],
)
def test_a_row_that_is_not_timed_says_why(name: str, target: str, why: str, tmp_path: Path) -> None:
    assert why in kernels.told(VARIANTS[name]._replace(target=target), tmp_path, 1, 0.01)
