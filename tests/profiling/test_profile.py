"""Profiles: rows for every source operator, which add up to the measured whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.errors import InputError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.build import builder
from circlet.ops.gather import GatherAttrs
from circlet.ops.opdef import NoAttrs
from circlet.profiling import Profile
from circlet.sample import Sample
from tests.corpora import corpus, each
from tests.runtime.test_loop_room import FIRST, counting
from tests.windows import conv2d_attrs

MODELS = sorted(p.name for p in (Path(__file__).parents[3] / "shared/corpora/models").glob("*"))
QUICK = ("if_dynamic.tflite", "mnist-8.onnx", "kws_dscnn_hybrid.tflite")


def adds_up(found: Profile) -> None:
    """The bar is 2 %; what lies between kernels is a row of its own."""
    total = sum(row.us for row in found.operators) + found.between_us
    assert total == pytest.approx(found.whole_us, rel=0.02)
    assert sum(call.us for call in found.calls) == pytest.approx(total - found.between_us, rel=1e-6)
    assert -0.02 * found.whole_us <= found.between_us < found.whole_us
    assert sum(row.share for row in found.operators) <= 1.02


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("network", ["int8", "float"])
def test_operators_and_what_lies_between_add_up_to_the_whole(network: str, threads: int) -> None:
    sample = Sample(network)
    found = circlet.profile(sample.model_path, [sample.image()], runs=8, threads=threads)
    adds_up(found)
    assert found.runs == 8 and found.threads == threads and found.whole_us > 0
    names = [row.name for row in found.operators]
    wanted = ["conv", "depthwise", "pointwise", "features", "flatten", "classifier"]
    assert names == [*wanted, "probabilities"]
    macs = {row.name: row.macs for row in found.operators}
    assert macs["pointwise"] == 4 * 4 * 32 * 16  # sizes of its image, filters, channels
    assert macs["classifier"] == 512 * 10
    assert all(row.why for row in found.operators)
    assert found.peaks is not None and all(
        row.roof is not None and row.roof > 0 for row in found.operators if row.backend
    )


def test_a_fused_kernel_is_divided_by_what_its_operators_cost() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 8, 8, 16))
    weights = b.constant("w", np.ones((16, 1, 1, 16), np.float32))
    y = b.op("CONV_2D", [x, weights], conv2d_attrs("SAME", 1, 1), name="conv")
    model = b.output(b.op("ADD", [y, x], AddAttrs(), name="sum")).model()
    found = circlet.profile(dumps(model, "tflite"), runs=4, threads=1, roofline=False)
    (call,) = found.calls
    outputs = 8 * 8 * 16
    assert call.kind == "FUSED_RESIDUAL"
    assert call.shares == pytest.approx((16 / 17, 1 / 17))  # 16 products and one sum an output
    conv, add = found.operators
    assert (conv.macs, add.macs) == (outputs * 16, 0)
    assert conv.us == pytest.approx(16 * add.us)
    assert conv.fused_with == ("sum",) and add.fused_with == ("conv",)
    adds_up(found)


def test_what_is_folded_into_constants_takes_no_time() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 8, 8, 16))
    stored = b.constant("stored", np.ones((16, 1, 1, 16), np.float16))
    weights = b.op("DEQUANTIZE", [stored], NoAttrs(), name="weights")
    y = b.op("CONV_2D", [x, weights], conv2d_attrs("SAME", 1, 1), name="conv")
    model = b.output(y).model()
    found = circlet.profile(dumps(model, "tflite"), runs=4, threads=1, roofline=False)
    folded, conv = found.operators
    assert (folded.name, folded.kind, folded.us) == ("weights", "DEQUANTIZE", 0)
    assert conv.kind == "CONV_2D" and conv.us > 0 and not conv.fused_with
    assert folded.why.startswith(("no time of its own", "it needs no kernel"))
    assert conv.macs == 8 * 8 * 16 * 16
    adds_up(found)


def test_a_lookup_moves_what_it_reads_of_its_table() -> None:
    b = builder()
    at = b.input("at", DType.INT32, (3,))
    table = b.constant("table", np.ones((4096, 64), np.float32))
    model = b.output(b.op("GATHER", [table, at], GatherAttrs(), name="rows")).model()
    found = circlet.profile(dumps(model, "tflite"), [np.arange(3, dtype=np.int32)], runs=2)
    (row,) = found.operators
    assert row.data_bytes + row.weights_bytes <= 2 * 3 * 64 * 4 + 3 * 4


def test_operators_that_numpy_runs_say_why() -> None:
    sample = Sample("int8")
    session = circlet.Session(sample.model_path, backends=["reference"], threads=1)
    found = circlet.profile(session, [sample.image()], runs=2)
    adds_up(found)
    assert {row.backend for row in found.operators} == {"reference"}
    assert found.peaks is None and all(row.roof is None for row in found.operators)


def test_a_profile_is_that_of_its_session() -> None:
    sample = Sample("float")
    exact = circlet.Session(sample.model_path, level="O0", threads=1)
    found = circlet.profile(exact, runs=2, roofline=False)
    assert found.level == "O0" and found.threads == 1
    assert all(len(call.sources) == 1 for call in found.calls)


def test_artifacts_and_impossible_counts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "digits.circlet"
    sample = Sample("int8")
    from circlet.compiler.compile import compile_model
    from circlet.options import Options

    path.write_bytes(compile_model(sample.model_path, Options()))
    with pytest.raises(InputError, match="an artifact cannot be profiled"):
        circlet.profile(circlet.load_artifact(path), runs=1)
    for runs in (0, -1, 10**9):
        with pytest.raises(InputError, match="so many runs"):
            circlet.profile(sample.model_path, runs=runs)


def test_threads_tell_what_each_worked(sessions: dict[int, Profile]) -> None:
    assert all(call.busy_us == () for call in sessions[1].calls)
    calls = sessions[2].calls
    assert {len(call.busy_us) for call in calls} == {2}
    assert all(call.busy_us[0] > 0 for call in calls)  # the calling thread works on every step
    assert all(busy >= 0 for call in calls for busy in call.busy_us)


@pytest.fixture(scope="module")
def sessions() -> dict[int, Profile]:
    model = Sample("int8").model_path
    return {n: circlet.profile(model, runs=2, threads=n, roofline=False) for n in (1, 2)}


@each("name", MODELS, QUICK, pytest.mark.release)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_operator_of_public_networks_is_told_of(name: str, threads: int) -> None:
    try:
        session = circlet.Session(corpus(f"models/{name}"), threads=threads)
    except circlet.CircletError as error:
        pytest.skip(f"it does not open: {error.code}")
    found = circlet.profile(session, runs=2, roofline=False)
    adds_up(found)
    ids = {row.id for row in found.operators}
    assert all(set(call.sources) <= ids for call in found.calls)
    assert all(sum(call.shares) == pytest.approx(1) for call in found.calls)


def test_loops_are_profiled_with_the_room_that_the_run_takes() -> None:
    found = circlet.profile(counting(), [np.array(FIRST + 1)], runs=2, threads=1)
    assert found.calls and {call.backend for call in found.calls} == {"cpu"}
