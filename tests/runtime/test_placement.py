from __future__ import annotations

import importlib.machinery
import logging

import numpy as np
import pytest

from circlet import Session, load_artifact
from circlet.backends.cpu.lowering import LOWERINGS
from circlet.errors import CompilerMissingError, PlacementError, UnsupportedOpsError
from circlet.ir import DType
from circlet.ops.build import builder
from tests.runtime import networks

X = np.linspace(-2, 2, 10, dtype=np.float32).reshape(2, 5)


@pytest.fixture
def no_native_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(LOWERINGS.rows, "TANH")


def backends(session: Session) -> list[object]:
    return [row["backend"] for row in session.placement]


def test_all_ops_of_a_plain_network_are_native() -> None:
    assert backends(Session(networks.mixed(), cache=False)) == ["cpu"] * 3


@pytest.mark.smoke
@pytest.mark.usefixtures("no_native_tanh")
@pytest.mark.parametrize("depth", [1, 2, 3, 7])
def test_native_and_numpy_partitions_take_turns(depth: int) -> None:
    session = Session(networks.mixed(depth), cache=False)
    whole = Session(networks.mixed(depth), backends=("reference",), cache=False)
    assert backends(session) == (["cpu", "reference"] * depth)[:depth]
    (got,), (wanted,) = (each.run([X]).values() for each in (session, whole))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("no_native_tanh")
def test_a_bound_call_of_several_partitions_works_in_place() -> None:
    session = Session(networks.mixed(3), cache=False)
    x, out = X.copy(), np.zeros_like(X)
    call = session.bind([x], [out])
    for shift in (0.0, 1.0):
        x[...] = X + np.float32(shift)
        call()
        np.testing.assert_allclose(out, np.tanh(np.maximum(x, 0)), rtol=0, atol=1e-6)


@pytest.mark.usefixtures("no_native_tanh")
def test_the_table_says_who_refused_what_and_why() -> None:
    rows = Session(networks.mixed(), cache=False).placement
    assert [row["refused"] for row in rows] == [[], [["cpu", "no native kernel for this kind"]], []]
    assert [row["source"] for row in rows] == ["layer0", "layer1", "layer2"]


@pytest.mark.smoke
@pytest.mark.usefixtures("no_native_tanh")
def test_strict_makes_a_refusal_an_error() -> None:
    with pytest.raises(PlacementError, match=r"layer1[\s\S]*no native kernel"):
        Session(networks.mixed(), strict=True, cache=False)


@pytest.mark.usefixtures("no_native_tanh")
def test_without_a_second_backend_a_refusal_is_reported_as_unsupported() -> None:
    with pytest.raises(UnsupportedOpsError, match="layer1"):
        Session(networks.mixed(), backends=("cpu",), cache=False)


def test_operators_without_a_record_are_reported_together() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2,))
    y = b.op("CUSTOM", [x], name="first", custom_code="Mine", shape=(2,))
    z = b.op("CUSTOM", [y], name="second", custom_code="Yours", shape=(2,))
    with pytest.raises(UnsupportedOpsError) as caught:
        Session(networks.tflite(b.output(z)))
    assert [entry.source for entry in caught.value.entries] == ["first", "second"]


@pytest.fixture(params=["CIRCLET_CC names nothing", "ziglang is not installed"])
def no_compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param.startswith("CIRCLET_CC"):
        monkeypatch.setenv("CIRCLET_CC", "/nowhere/cc")
    else:
        monkeypatch.delenv("CIRCLET_CC", raising=False)
        monkeypatch.setattr(importlib.machinery.PathFinder, "find_spec", lambda name: None)


@pytest.mark.smoke
@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_numpy_runs_it_all_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        session = Session(networks.mixed())
    assert backends(session) == ["reference"] * 3
    assert all("no C compiler" in str(row["refused"]) for row in session.placement)
    assert "no C compiler" in caplog.text
    (result,) = session.run([X]).values()
    np.testing.assert_allclose(result, np.tanh(np.maximum(X, 0)), rtol=0, atol=1e-6)


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("options", [{"strict": True}, {"backends": ("cpu",)}], ids=str)
def test_without_a_compiler_native_code_cannot_be_demanded(options: dict[str, object]) -> None:
    with pytest.raises(CompilerMissingError, match=r"pip install"):
        Session(networks.mixed(), **options)  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_compiler")
def test_an_artifact_runs_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.MonkeyPatch.context():
        monkeypatch.undo()
        from circlet.compiler.compile import compile_model
        from circlet.options import Options

        artifact = compile_model(networks.mixed(), Options())
    monkeypatch.setenv("CIRCLET_CC", "/nowhere/cc")
    session = load_artifact(artifact, strict=True)
    assert backends(session) == ["cpu"] * 3
    assert session.run([X])["layer2"].shape == (2, 5)
