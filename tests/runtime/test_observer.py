"""A hook after every op: the same values on both backends, with quantisation and time."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import numpy as np
import pytest

from circlet import Session, load_artifact
from circlet.backends.base import Observation
from circlet.compiler.compile import compile_model
from circlet.errors import CancelledError, InputError
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from circlet.options import Options
from circlet.sample import Sample
from tests.runtime import networks

Values = dict[str, np.ndarray]


def observed(session: Session, inputs: Sequence[np.ndarray]) -> tuple[list[Observation], Values]:
    """What an observer is told in order, and copies of all values by name."""
    seen: list[Observation] = []
    values: Values = {}

    def observer(observation: Observation) -> None:
        seen.append(observation)
        values.update({value.name: value.array.copy() for value in observation.values})

    session.run(inputs, observer=observer)
    return seen, values


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("network", ["int8", "float"])
def test_every_op_shows_on_native_code_what_it_shows_in_numpy(network: str, threads: int) -> None:
    sample = Sample(network)
    image = [sample.image()]
    native = Session(sample.model_path, level="O0", threads=threads)
    plain = Session(sample.model_path, level="O0", backends=["reference"])
    seen, values = observed(native, image)
    wanted_seen, wanted = observed(plain, image)
    assert [(one.kind, one.name) for one in seen] == [(one.kind, one.name) for one in wanted_seen]
    assert values.keys() == wanted.keys()
    for name, array in values.items():
        bar = 1e-5 * max(1.0, float(np.abs(array).max())) if network == "float" else 0
        np.testing.assert_allclose(array, wanted[name], rtol=0, atol=bar)


def test_observations_tell_quantisation_and_time() -> None:
    sample = Sample("int8")
    for backend in ("cpu", "reference"):
        session = Session(sample.model_path, level="O0", backends=[backend])
        seen, _ = observed(session, [sample.image()])
        assert sum(one.ns for one in seen) > 0
        scores = seen[-1].values[0]
        assert (scores.scale, scores.zero_point) == ((1 / 256,), (-128,))


def test_fused_ops_speak_of_all_that_they_descend_from() -> None:
    sample = Sample("float")
    plain, _ = observed(Session(sample.model_path, level="O0"), [sample.image()])
    fused, values = observed(Session(sample.model_path), [sample.image()])
    assert len(fused) <= len(plain)
    names = {name for one in fused for name in one.name.split("+")}
    assert {one.name for one in plain} <= names
    (wanted,) = Session(sample.model_path).run([sample.image()]).values()
    np.testing.assert_array_equal(values["probabilities"], wanted)


def test_an_artifact_shows_its_ops_too() -> None:
    session = load_artifact(compile_model(networks.mixed(), Options()))
    given = [np.ones(value.shape, value.dtype) for value in session.inputs]
    seen, _ = observed(session, given)
    assert seen


def test_values_inside_wider_images_are_seen_where_they_lie() -> None:
    model = networks.convolutions(size=8, channels=4, depth=3)
    image = [networks.convolutions_input(8, 4)]
    _, values = observed(Session(model, cache=False, level="O0"), image)
    _, wanted = observed(Session(model, backends=["reference"], cache=False, level="O0"), image)
    assert len(values) == 3
    for name, array in wanted.items():
        np.testing.assert_allclose(values[name], array, atol=1e-5 * np.abs(array).max())


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_an_error_of_the_observer_ends_the_run_and_nothing_else(backend: str) -> None:
    session = Session(networks.mixed(), backends=[backend], cache=False)
    given = [np.ones(value.shape, value.dtype) for value in session.inputs]
    wanted = session.run(given)
    told: list[str] = []

    def observer(observation: Observation) -> None:
        told.append(observation.name)
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        session.run(given, observer=observer)
    assert len(told) == 1
    for name, array in session.run(given).items():
        np.testing.assert_array_equal(array, wanted[name])
    assert len(told) == 1


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_an_observer_may_cancel_the_run(backend: str) -> None:
    session = Session(networks.mixed(), backends=[backend], level="O0", cache=False)
    given = [np.ones(value.shape, value.dtype) for value in session.inputs]
    with pytest.raises(CancelledError):
        session.run(given, observer=lambda observation: session.cancel())


def test_a_view_is_shown_with_its_source() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 6))
    doubled = b.op("ADD", [x, x], name="doubled")
    flat = b.op("RESHAPE", [doubled, b.constant("sizes", np.array([12], np.int32))], name="flat")
    model = networks.tflite(b.output(b.op("TANH", [flat], name="bent")))
    session = Session(model, level="O0", cache=False)
    given = np.arange(12, dtype=np.float32).reshape(2, 6)
    seen, values = observed(session, [given])
    assert [one.name for one in seen] == ["doubled", "flat", "bent"]
    np.testing.assert_array_equal(values["flat"], 2 * given.reshape(12))


def test_a_concatenation_is_told_after_all_of_its_parts() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 4))
    parts = [b.op("EXP", [x], name="grown"), b.op("TANH", [x], name="bent")]
    joined = b.op("CONCATENATION", parts, ConcatenationAttrs(axis=1), name="joined")
    model = networks.tflite(b.output(b.op("NEG", [joined], name="turned")))
    given = np.arange(4, dtype=np.float32).reshape(1, 4)
    wanted = np.concatenate([np.exp(given), np.tanh(given)], axis=1)
    for level in ("O0", "O2"):
        seen, values = observed(Session(model, level=level, cache=False), [given])
        assert [one.name for one in seen][-1] == "turned"
        for name, right in (("joined", wanted), ("turned", -wanted)):
            if name in values:
                np.testing.assert_allclose(values[name], right, rtol=1e-5)
    assert "turned" in values


def test_a_run_over_nothing_is_observed_on_many_threads() -> None:
    b = builder()
    b.output(b.op("EXP", [b.input("x", DType.FLOAT32, (0, 3))], name="nothing"))
    session = Session(networks.tflite(b), threads=4, cache=False)
    seen, values = observed(session, [np.zeros((0, 3), np.float32)])
    assert all(array.size == 0 for array in values.values())
    assert len(seen) <= 1


def test_arrays_that_an_observer_keeps_outlive_the_session() -> None:
    session = Session(networks.mixed(), cache=False, level="O0")
    given = [np.ones(value.shape, value.dtype) for value in session.inputs]
    kept: list[np.ndarray] = []
    session.run(given, observer=lambda one: kept.extend(value.array for value in one.values))
    copies = [array.copy() for array in kept]
    del session
    gc.collect()
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_an_observer_that_cannot_be_called_is_refused() -> None:
    session = Session(networks.mixed(), cache=False)
    given = [np.ones(value.shape, value.dtype) for value in session.inputs]
    with pytest.raises(InputError):
        session.run(given, observer="nobody")  # type: ignore[arg-type]
