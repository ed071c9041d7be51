"""Other engines as backends: whole networks, mixtures, sizes, what they refuse, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.backends import registry
from circlet.backends.engine import Engine, EngineBackend
from circlet.errors import BackendError, InputError
from circlet.formats import dumps
from circlet.ir import DType, Tensor
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.sample import Sample
from tests.cli.call import as_json
from tests.runtime import networks


def _needs(package: str, name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{name} is not installed")


ENGINES = [
    pytest.param("litert", marks=_needs("ai_edge_litert", "LiteRT")),
    pytest.param("openvino", marks=_needs("openvino", "OpenVINO")),
    pytest.param("onnxruntime", marks=_needs("onnxruntime", "ONNX Runtime")),
]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def registry_anew() -> Iterator[None]:
    registry.find_backend.cache_clear()
    yield
    registry.find_backend.cache_clear()


@pytest.mark.parametrize("network", ["int8", "float"])
def test_an_engine_runs_whole_networks(engine: str, network: str) -> None:
    sample = Sample(network)
    session = Session(sample.model_path, backends=[engine], strict=True, cache=False)
    assert {row["backend"] for row in session.placement} == {engine}
    (got,) = session.run([sample.image()]).values()
    (wanted,) = Session(sample.model_path).run([sample.image()]).values()
    np.testing.assert_allclose(got, wanted, atol=1e-5 if network == "float" else 1)


def test_what_it_refuses_goes_on_to_the_next_backend(engine: str) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 8, 8, 4))
    state = b.variable("state", DType.FLOAT32, (1, 8, 8, 4))
    summed = b.op("ADD", [b.op("TANH", [x], name="tanh"), state], name="with state")
    mixed = Session(networks.tflite(b.output(summed)), backends=[engine, "reference"], cache=False)
    placed = {row["kind"]: (row["backend"], row["refused"]) for row in mixed.placement}
    assert placed["TANH"] == (engine, [])
    reason = "control flow and state stay with their session"
    assert placed["ADD"] == ("reference", [[engine, reason]])
    (got,) = mixed.run([np.ones((1, 8, 8, 4), np.float32)]).values()
    np.testing.assert_allclose(got, np.tanh(1.0), rtol=1e-6)


def test_paddings_and_missing_biases_are_said_as_it_wants_them(engine: str) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 8, 8, 4))
    weights = b.constant("w", np.linspace(-1, 1, 4 * 9 * 4, dtype=np.float32).reshape(4, 3, 3, 4))
    attrs = Conv2DAttrs(((2, 0), (0, 1)), (1, 1))
    convolved = b.op("CONV_2D", [x, weights, None], attrs, name="own padding, no bias")
    model = b.output(convolved).model()
    other = Session(model, backends=[engine], strict=True, cache=False)
    given = [np.arange(256, dtype=np.float32).reshape(1, 8, 8, 4) / 256]
    (got,) = other.run(given).values()
    (wanted,) = Session(model, backends=["reference"], cache=False).run(given).values()
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_onnx_runtime_reads_and_writes_the_sessions_own_buffers() -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 3))
    data = dumps(b.output(b.op("NEG", [x], name="y")).model(), "onnx")
    given, made = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    engine = import_module("circlet.backends.onnxruntime.backend").OnnxRuntime()
    runner = engine.runner(data, [given], [made], 1)
    runner.run()
    assert made.tolist() == [[-1] * 3] * 2
    given[0] = 5
    runner.run()
    assert made[0].tolist() == [-5] * 3
    other = np.zeros((2, 3), np.float32)
    runner.set_output(0, other)
    runner.run()
    assert other[0].tolist() == [-5] * 3


def test_it_is_cached_and_resized_like_any_other(engine: str) -> None:
    model = networks.sum_and_difference()
    Session(model, backends=[engine])
    session = Session(model, backends=[engine])
    assert "cache" in session.opened.seconds
    shapes = {"left": (5, 3), "right": (5, 3)}
    larger = session.resized(shapes)
    given = [np.ones(value.shape, value.dtype) for value in larger.inputs]
    wanted = Session(model, shapes=shapes).run(given)
    for name, got in larger.run(given).items():
        np.testing.assert_array_equal(got, wanted[name])


def test_commands_know_it_too(engine: str, tmp_path: Path) -> None:
    report = as_json("run", "--backend", f"{engine},reference")
    assert report["native_ops"] == report["ops"]
    artifact = str(tmp_path / "sample.circlet")
    assert as_json("compile", "-o", artifact, "--backend", engine)["arena_bytes"] == 0
    assert as_json("run", artifact)["native_ops"] == report["ops"]


def test_an_engine_that_is_not_installed_says_how_to_get_it(
    registry_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert registry.backend_names()[:2] == ["cpu", "reference"]
    assert "litert" not in registry.backend_names()
    with pytest.raises(InputError, match="not installed") as caught:
        Session(Sample().model_path, backends=["litert"])
    assert "pip install ai-edge-litert" in caught.value.fix


def test_an_entry_point_that_cannot_be_loaded_has_a_code(
    registry_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = EntryPoint(name="broken", value="tests.backends:Nothing", group=registry.GROUP)
    monkeypatch.setattr(registry, "_installed", lambda: iter([broken]))
    with pytest.raises(BackendError, match="cannot be loaded") as caught:
        Session(Sample().model_path, backends=["broken"])
    assert caught.value.where == "broken"
    with pytest.raises(InputError, match=r"cpu, reference, .*broken"):
        Session(Sample().model_path, backends=["cuda"])


def test_an_engine_is_asked_once_about_operators_that_differ_in_names(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    backend = registry.find_backend(engine)
    assert isinstance(backend, EngineBackend)
    kind = type(backend._engine)
    check = kind.check

    def counted(self: Engine, model: bytes, *ends: Sequence[Tensor]) -> None:
        asked.append(model)
        check(self, model, *ends)

    monkeypatch.setattr(kind, "check", counted)
    b = builder()
    x = b.input("x", DType.FLOAT32, (3, 17))
    for number in range(4):
        x = b.op("TANH", [x], name=f"tanh {number}")
    session = Session(b.output(x).model(), backends=[engine], strict=True, cache=False)
    assert {row["backend"] for row in session.placement} == {engine}
    assert len(asked) == 2, "the operator, and the partition of all four"
