"""Networks whose constants lie in files beside them: the cache knows these files too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="networks are made with the package onnx")

from circlet import Session
from circlet.errors import CircletError
from tests.frontends.onnx_models import with_data_beside

pytestmark = pytest.mark.usefixtures("units_for_any_cache")

X = np.ones((3, 2), np.float32)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))


def answer(session: Session) -> list[float]:
    return [float(value) for value in session.run([X])["y"].ravel()]


def test_a_second_start_finds_what_the_first_compiled(tmp_path: Path) -> None:
    path = with_data_beside(tmp_path)
    first, second = Session(path), Session(path)
    assert "compile" in first.opened.seconds
    assert "cache" in second.opened.seconds
    assert answer(first) == answer(second) == [1, 2, 3, 4, 5, 6]


def test_other_data_beside_the_same_model_is_another_network(tmp_path: Path) -> None:
    path = with_data_beside(tmp_path)
    Session(path)
    (tmp_path / "weight.bin").write_bytes(np.full(6, 9, np.float32).tobytes())
    changed = Session(path)
    assert "compile" in changed.opened.seconds
    assert answer(changed) == [9] * 6
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    copy = Session(with_data_beside(elsewhere))
    assert "cache" in copy.opened.seconds
    assert answer(copy) == [1, 2, 3, 4, 5, 6]


def test_data_that_is_gone_is_an_error_and_not_a_cached_answer(tmp_path: Path) -> None:
    path = with_data_beside(tmp_path)
    Session(path)
    (tmp_path / "weight.bin").unlink()
    with pytest.raises(CircletError) as caught:
        Session(path)
    assert caught.value.code == "E-FILE"
    assert caught.value.where == "weight"


def test_data_that_changed_since_a_cached_start_is_told_of(tmp_path: Path) -> None:
    path = with_data_beside(tmp_path)
    Session(path)
    cached = Session(path)
    (tmp_path / "weight.bin").write_bytes(np.full(6, 9, np.float32).tobytes())
    with pytest.raises(CircletError) as caught:
        cached.resized({"x": (3, 2)})
    assert caught.value.code == "E-FILE"
