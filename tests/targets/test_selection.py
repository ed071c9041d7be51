"""An artifact of several targets: the best that the CPU has is taken, and each gives the answer."""

from __future__ import annotations

import pytest

from circlet import load_artifact
from circlet.artifact.file import Artifact, open_artifact
from circlet.compiler.compile import compile_model
from circlet.errors import TargetError
from circlet.options import Options
from circlet.target import host, targets
from circlet.target.targets import missing_on_host, parse_target
from tests.targets.networks import NETWORKS, model_path
from tests.targets.questions import assert_same, question

LEVELS = ("x86_64_v2", "x86_64_v3", "x86_64_v4")
FORCED = ("x86_64", "x86_64_v2", "x86_64_v3", "x86_64_v4", "x86_64_v4+avx512vnni", "native")


@pytest.fixture(scope="module")
def image() -> bytes:
    """The sample for three levels of x86-64, the best one in the middle."""
    chosen = ",".join((LEVELS[0], LEVELS[2], LEVELS[1]))
    return compile_model(model_path("int8 sample"), Options(("cpu",), target=chosen))


def _pretend(patch: pytest.MonkeyPatch, cpu: str) -> None:
    """Have the process see a CPU with the features of a target and no others."""
    has = parse_target(cpu)
    patch.setattr(host, "host_architecture", lambda: has.arch)
    patch.setattr(host, "host_words", lambda: frozenset(has.needs[1:]))
    patch.setattr(targets, "host_architecture", lambda: has.arch)
    patch.setattr(targets, "host_features", lambda: has.all_features)


@pytest.mark.parametrize(
    ("cpu", "taken"),
    [
        ("x86_64_v2", "x86_64_v2"),
        ("x86_64_v2+avx2", "x86_64_v2"),
        ("x86_64_v3", "x86_64_v3"),
        ("x86_64_v3+avxvnni", "x86_64_v3"),
        ("x86_64_v4+avx512vnni", "x86_64_v4"),
    ],
)
def test_the_best_level_that_the_cpu_has_is_taken(
    image: bytes, cpu: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact: Artifact = open_artifact(image)
    _pretend(monkeypatch, cpu)
    assert artifact.select().target == taken


@pytest.mark.parametrize(("cpu", "lacking"), [("x86_64", "v2"), ("aarch64+i8mm", "x86_64")])
def test_a_cpu_that_fits_no_target_is_refused(
    image: bytes, cpu: str, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend(monkeypatch, cpu)
    with pytest.raises(TargetError, match=lacking) as caught:
        load_artifact(image)
    assert caught.value.code == "E-TARGET"


@pytest.fixture(scope="module")
def arm_image() -> bytes:
    """The sample for three kinds of Arm processors."""
    chosen = "aarch64,aarch64+dotprod,aarch64+i8mm"
    return compile_model(model_path("int8 sample"), Options(("cpu",), target=chosen))


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ("fp asimd", "aarch64"),
        ("fp asimd asimdhp asimddp", "aarch64+dotprod"),
        ("fp asimd asimdhp asimddp i8mm bf16", "aarch64+i8mm"),
        ("fp asimd i8mm", "aarch64"),
    ],
)
def test_the_best_code_for_an_arm_processor_is_taken(
    arm_image: bytes, words: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what Linux says of it: `i8mm` is among its second words of hardware capabilities."""
    monkeypatch.setattr(host, "host_architecture", lambda: "aarch64")
    monkeypatch.setattr(host, "_cpuinfo_text", lambda: f"Features\t: {words}\n")
    host.host_words.cache_clear()
    try:
        assert open_artifact(arm_image).select().target == taken
    finally:
        host.host_words.cache_clear()


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_of_one_artifact_answers_the_same(
    image: bytes, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing := missing_on_host(parse_target(level)):
        pytest.skip(f"this CPU lacks {', '.join(missing)}")
    inputs, wanted = question(model_path("int8 sample"))
    _pretend(monkeypatch, level)
    assert_same(list(load_artifact(image).run(inputs).values()), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("target", FORCED)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_forced_target_answers_as_numpy_does(network: str, target: str) -> None:
    path = model_path(network)
    if missing := missing_on_host(parse_target(target)):
        pytest.skip(f"this CPU lacks {', '.join(missing)}")
    inputs, wanted = question(path)
    options = Options(("cpu",), strict=True, target=target)
    assert_same(list(load_artifact(compile_model(path, options)).run(inputs).values()), wanted)
