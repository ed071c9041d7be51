"""The code of every public model stays inside its tensors and does nothing undefined."""

from __future__ import annotations

import signal

import pytest

from circlet.plan.memory import Block
from tests.corpora import REPRESENTATIVE, each, models
from tests.sanitize.computed import NETWORKS
from tests.sanitize.engine import run_watched, sanitize
from tests.sanitize.modes import MODES
from tests.sanitize.spread import PAGE, Spread

pytestmark = pytest.mark.slow
LOOPS = ("rows", "words", "attention", "caches", "beams", "first row", "inner loops")
# What is large takes half a minute a mode; one of each way to compute is among the slow tests.
MODELS = (
    *REPRESENTATIVE,
    "face_detection_short_range.tflite",
    "mobilenet_v1_0.25_128_quant.tflite",
    "movenet_single_pose_lightning_ptq.tflite",
    "torchaudio_conformer.tflite",
    "vww_96_float.tflite",
    "yamnet_audio_classifier.tflite",
)


def _possible(mode: str) -> None:
    if MODES[mode].missing:
        pytest.skip(MODES[mode].missing)


@pytest.mark.parametrize("mode", MODES)
@each("model", models(), MODELS, pytest.mark.release)
def test_a_public_model_runs_clean(model: str, mode: str) -> None:
    _possible(mode)
    outcome = sanitize(model.removesuffix(".tflite"), mode)
    assert not outcome.finding, f"{outcome.finding}\n{outcome.detail}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("network", NETWORKS)
def test_products_of_computed_operands_run_clean(network: str, mode: str) -> None:
    _possible(mode)
    done, step = run_watched("tests.sanitize.computed", network, mode)
    assert done.returncode == 0, f"{step}\n{done.stderr}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("network", LOOPS)
def test_loops_whose_variables_grow_run_clean(network: str, mode: str) -> None:
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    _possible(mode)
    done, step = run_watched("tests.sanitize.growing_loops", network, mode)
    assert done.returncode == 0, f"{step}\n{done.stderr}"


@pytest.mark.parametrize("mode", MODES)
def test_sound_code_passes(mode: str) -> None:
    _possible(mode)
    done, _ = run_watched("tests.sanitize.broken", "none", mode)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("fault", "mode", "status"),
    [
        ("read_behind", "guard", -signal.SIGSEGV),
        ("write_behind", "guard", -signal.SIGSEGV),
        ("read_before", "ubsan", -signal.SIGSEGV),
        ("overflow", "ubsan", -signal.SIGILL),
        ("shift", "ubsan", -signal.SIGILL),
        ("read_behind", "asan", 99),
        ("write_behind", "asan", 99),
        ("read_before", "asan", 99),
    ],
)
def test_a_fault_is_found_and_its_operator_named(fault: str, mode: str, status: int) -> None:
    _possible(mode)
    done, step = run_watched("tests.sanitize.broken", fault, mode)
    assert done.returncode == status, done.stderr
    assert step == "step 1, kernel user_op, of CUSTOM:Faulty faulty"


@pytest.mark.parametrize("at_end", [False, True])
def test_blocks_touch_a_page_that_holds_nothing(at_end: bool) -> None:
    spread = Spread(at_end)
    blocks = [Block("a", 100, 0, 1), Block("b", PAGE, 5, 6), Block("c", 1, 0, 9)]
    plan = spread.arrangement.plan_arena(blocks)
    taken = {
        page for at, size in spread.tensors for page in range(at // PAGE, -(-(at + size) // PAGE))
    }
    for at, block in zip(plan.offsets, blocks, strict=True):
        edge = at + block.size_bytes if at_end else at
        assert edge % PAGE == 0
        assert (edge // PAGE if at_end else edge // PAGE - 1) not in taken
