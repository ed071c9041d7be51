"""Sessions whose float products take operands of bfloat16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.bf16 import golden_error, rounds_operands
from circlet import Session, load_artifact
from circlet.comparison.networks import described
from circlet.compiler.compile import compile_model
from circlet.errors import InputError
from circlet.options import Options
from tests.cli.call import as_json, circlet
from tests.corpora import corpus, each, models
from tests.runtime import networks

_BF16_ERROR = 2.0**-7
_NETWORK_ERROR = 0.1
PRODUCTS = {"conv_bf16", "amx_conv_bf16"}  # without and with tiles of AMX


def _network() -> bytes:
    return networks.convolutions(24, 32, 2, window=1)


def _kernels(session: Session) -> list[str]:
    return [name for part in session.opened.metadata["partitions"] for _, name in part["steps"]]


def test_bf16_is_asked_for_and_close_to_floats() -> None:
    plain, rounded = Session(_network()), Session(_network(), precision="bf16")
    assert PRODUCTS & {*_kernels(rounded)}
    assert not PRODUCTS & {*_kernels(plain)}
    image = np.random.default_rng(1).standard_normal((1, 24, 24, 32)).astype(np.float32)
    (exact,), (got,) = (session.run([image]).values() for session in (plain, rounded))
    error = np.abs(got - exact).max() / np.abs(exact).max()
    assert 0 < error < _BF16_ERROR


def test_weights_take_half_the_memory() -> None:
    sizes = {}
    for precision in ("f32", "bf16"):
        session = Session(
            networks.convolutions(24, 128, 3, window=1), precision=precision, cache=False
        )
        (part,) = session.opened.partitions
        sizes[precision] = len(part.code.constants)  # type: ignore[attr-defined]
    assert sizes["bf16"] < 0.55 * sizes["f32"]


def test_sessions_for_other_sizes_keep_the_precision() -> None:
    first = Session(_network(), precision="bf16")
    image = np.random.default_rng(1).standard_normal((1, 30, 20, 32)).astype(np.float32)
    fresh = Session(_network(), precision="bf16", shapes={"x": image.shape})
    for session in (
        first.resized({"x": image.shape}),
        first.entered("").resized({"x": image.shape}),
    ):
        (left,), (right,) = (s.run([image]).values() for s in (session, fresh))
        np.testing.assert_array_equal(left, right)


def test_a_target_without_instructions_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    both = "x86_64_v3,x86_64_v4+avx512bf16"
    compile_model(_network(), Options(target=both, precision="bf16"))
    (record,) = [r for r in caplog.records if "bf16" in r.message]
    assert "x86_64_v3" in record.message and "avx512bf16" not in record.message


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(InputError, match="no such precision"):
        Session(networks.relu(), precision="f8")


def test_an_artifact_keeps_its_precision() -> None:
    plain = compile_model(_network(), Options())
    rounded = compile_model(_network(), Options(precision="bf16"))
    assert load_artifact(rounded, precision="bf16").opened.metadata["precision"] == "bf16"
    assert PRODUCTS & {*_kernels(load_artifact(rounded))}
    for artifact, other in ((plain, "bf16"), (rounded, "f32")):
        with pytest.raises(InputError, match="keeps the precision"):
            load_artifact(artifact, precision=other)


@pytest.mark.slow
@each("model", models())
def test_public_float_networks_stay_near_their_golden_outputs(model: str) -> None:
    path = corpus(f"models/{model}")
    if described(path).kind != "fp32" or not rounds_operands(path):
        pytest.skip("no float products in it are rounded")
    error = golden_error(path)
    assert error is None or error <= _NETWORK_ERROR


def test_commands_take_and_show_the_precision(tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(_network())
    shown = circlet("run", str(model), "--precision", "bf16").stdout
    assert "float products in bf16" in shown
    assert as_json("run", str(model), "--precision", "bf16")["precision"] == "bf16"
    (memory,) = as_json("inspect", str(model), "--precision", "bf16")["memory"]
    assert memory["rounded_ops"] == 2
    circlet("compile", str(model), "-o", str(tmp_path / "a.circlet"), "--precision", "bf16")
    assert as_json("run", str(tmp_path / "a.circlet"))["precision"] == "bf16"
