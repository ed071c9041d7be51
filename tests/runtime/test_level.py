"""Sessions that are asked for an optimisation level."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet import Session, load_artifact
from circlet.compiler.compile import compile_model
from circlet.errors import InputError
from circlet.options import Options
from tests.cli.call import circlet
from tests.runtime import networks


def _network() -> bytes:
    return networks.convolutions(96, 16, 4, window=1)


def _arena_bytes(session: Session) -> int:
    return sum(part["arena_bytes"] for part in session.opened.metadata["partitions"])


def test_level_os_takes_less_memory_and_gives_the_same() -> None:
    fast, small = Session(_network()), Session(_network(), level="Os")
    assert fast.opened.metadata["level"] == "O2"
    assert _arena_bytes(small) < _arena_bytes(fast)
    image = np.random.default_rng(1).standard_normal(fast.inputs[0].shape).astype(np.float32)
    (left,), (right,) = (session.run([image]).values() for session in (fast, small))
    np.testing.assert_array_equal(left, right)


def test_sessions_made_of_a_session_keep_the_level() -> None:
    session = Session(_network(), level="Os")
    shape = (1, 80, 80, 16)
    for other in (session.entered(""), session.resized({session.inputs[0].name: shape})):
        assert other.opened.metadata["level"] == "Os"


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(InputError, match="no such optimisation level"):
        Session(networks.relu(), level="O3")


def test_an_artifact_keeps_its_level() -> None:
    artifact = compile_model(networks.relu(), Options(level="Os"))
    for level in (None, "Os"):
        assert load_artifact(artifact, level=level).opened.metadata["level"] == "Os"
    with pytest.raises(InputError, match="keeps the level"):
        load_artifact(artifact, level="O2")


def test_commands_take_and_show_the_level(tmp_path: Path) -> None:
    model, artifact = tmp_path / "model.tflite", tmp_path / "model.circlet"
    model.write_bytes(networks.relu())
    circlet("run", str(model), "-O", "Os")
    circlet("compile", str(model), "-o", str(artifact), "-O", "Os")
    assert "level Os" in circlet("inspect", str(artifact)).stdout
    refused = circlet("run", str(artifact), "-O", "O2")
    assert refused.exit_code == 1 and "keeps the level" in refused.stderr
