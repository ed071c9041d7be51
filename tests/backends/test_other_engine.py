"""A backend that runs partitions through another engine is one module and one entry point."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.backends import registry
from circlet.errors import BackendError, InputError
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.sample import Sample
from tests.cli.call import as_json
from tests.runtime import networks

pytest.importorskip("ai_edge_litert", reason="the engine that is added is LiteRT")


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=registry.GROUP)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    found = [
        entry("litert", "tests.backends.litert:LiteRtBackend"),
        entry("broken", "tests.backends.litert:Nothing"),
    ]
    monkeypatch.setattr(registry, "_installed", lambda: iter(found))
    registry.find_backend.cache_clear()
    yield
    registry.find_backend.cache_clear()


@pytest.mark.parametrize("network", ["int8", "float"])
def test_another_engine_runs_whole_networks(network: str) -> None:
    sample = Sample(network)
    session = Session(sample.model_path, backends=["litert"], strict=True)
    assert {row["backend"] for row in session.placement} == {"litert"}
    (got,) = session.run([sample.image()]).values()
    (wanted,) = Session(sample.model_path).run([sample.image()]).values()
    np.testing.assert_allclose(got, wanted, atol=1e-5 if network == "float" else 0)


def test_what_it_refuses_goes_on_to_the_next_backend() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 8, 8, 4))
    weights = b.constant("w", np.full((4, 3, 3, 4), 0.25, np.float32))
    convolved = b.op(
        "CONV_2D", [x, weights, None], Conv2DAttrs("SAME_UPPER", (1, 1)), name="no bias"
    )
    model = networks.tflite(b.output(b.op("TANH", [convolved], name="tanh")))
    mixed = Session(model, backends=["litert", "reference"], cache=False)
    placed = {row["kind"]: (row["backend"], row["refused"]) for row in mixed.placement}
    assert placed["TANH"] == ("litert", [])
    assert placed["CONV_2D"] == ("reference", [["litert", "LiteRT wants every operand"]])
    plain = Session(model, backends=["reference"], cache=False)
    inputs = [np.ones(value.shape, value.dtype) for value in plain.inputs]
    for got, wanted in zip(mixed.run(inputs).values(), plain.run(inputs).values(), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_it_is_cached_and_resized_like_any_other() -> None:
    model = networks.sum_and_difference()
    Session(model, backends=["litert"])
    session = Session(model, backends=["litert"])
    assert "cache" in session.opened.seconds
    shapes = {"left": (5, 3), "right": (5, 3)}
    larger = session.resized(shapes)
    given = [np.ones(value.shape, value.dtype) for value in larger.inputs]
    wanted = Session(model, shapes=shapes).run(given)
    for name, got in larger.run(given).items():
        np.testing.assert_array_equal(got, wanted[name])


def test_commands_know_it_too(tmp_path: Path) -> None:
    report = as_json("run", "--backend", "litert,reference")
    assert report["native_ops"] == report["ops"]
    artifact = str(tmp_path / "sample.circlet")
    assert as_json("compile", "-o", artifact, "--backend", "litert")["arena_bytes"] == 0
    assert as_json("run", artifact)["native_ops"] == report["ops"]


def test_an_entry_point_that_cannot_be_loaded_has_a_code() -> None:
    with pytest.raises(BackendError, match="cannot be loaded") as caught:
        Session(Sample().model_path, backends=["broken"])
    assert caught.value.where == "broken"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="cpu, reference, litert, broken"):
        Session(Sample().model_path, backends=["cuda"])
