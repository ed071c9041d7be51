"""The notebooks run from a fresh kernel and print what they are stored with."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tests import child

FOLDER = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
EXTRA = "pip install 'circlet[docs]'"


def texts(cell: Any) -> str:
    """What a cell printed, pictures left out."""
    return "".join(output["text"] for output in cell.outputs if output.output_type == "stream")


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_prints_what_it_holds(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ziglang", reason="notebooks compile networks")
    pytest.importorskip("matplotlib", reason=EXTRA)
    pytest.importorskip("ipykernel", reason=EXTRA)
    nbformat = pytest.importorskip("nbformat", reason=EXTRA)
    nbclient = pytest.importorskip("nbclient", reason=EXTRA)
    monkeypatch.setenv("PYTHONPATH", child.environment()["PYTHONPATH"])
    stored = nbformat.read(FOLDER / name, as_version=4)
    fresh = nbformat.read(FOLDER / name, as_version=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client's and the kernel's own
        nbclient.NotebookClient(fresh, timeout=120, kernel_name="python3").execute()
    cells = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert cells and all(cell.execution_count for cell in cells)
    done = [cell for cell in fresh.cells if cell.cell_type == "code"]
    assert list(map(texts, done)) == list(map(texts, cells))


def test_there_are_two() -> None:
    assert len(NOTEBOOKS) == 2
