"""Each hostile file of the corpora does what its index says, in little time and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.confined import MOST_RESIDENT_KIB, Ended, run_confined
from tests.corpora import ROOT, corpus, each, index

FILES = sorted(path.name for path in (ROOT / "hostile").glob("*.tflite"))
CODES = {
    "reject": {"E-FORMAT", "E-GRAPH", "E-LIMIT", "E-UNSUPPORTED-OPS"},
    "resource-limit": {"E-LIMIT", "E-TIMEOUT"},
    "run": {""},
}
CODES["reject-or-run"] = CODES["reject"] | CODES["run"]
SECONDS = {"run": 20}  # others: 10

pytestmark = pytest.mark.slow


def ended(name: str, backend: str, folder: Path) -> tuple[Ended, str]:
    file = corpus(f"hostile/{name}")
    expected = index("hostile/index.json")["cases"][name]["expect"]
    return run_confined("run", file, "--backend", backend, "--no-cache", folder=folder), expected


@pytest.mark.parametrize("backend", ["cpu,reference", "reference"])
@each("name", FILES)
def test_a_hostile_file_does_what_is_expected_of_it(
    name: str, backend: str, tmp_path: Path
) -> None:
    found, expected = ended(name, backend, tmp_path)
    assert found.status == (1 if found.code else 0), found.output
    assert found.code in CODES[expected], found.output
    assert found.seconds <= SECONDS.get(expected, 10)
    assert found.resident_kib <= MOST_RESIDENT_KIB
