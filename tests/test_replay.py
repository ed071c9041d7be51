from __future__ import annotations

import json

import numpy as np
import pytest

from circlet.formats import load
from tests.corpora import corpus, each, index, models
from tests.evaluate import evaluate
from tests.peer import PeerRefusedError, golden_inputs
from tests.replay import Row, compare, main, replay, summary

FAST = (
    "ad01_int8.tflite",
    "conv_fc_mnist_a8w8.tflite",
    "hello_world_float.tflite",
    "hello_world_int8.tflite",
    "kws_dscnn_hybrid.tflite",
    "kws_dscnn_int8.tflite",
    "mobilenet_v1_0.25_128_quant.tflite",
    "partly_quantized_mnist.tflite",
    "planestrike_tf.tflite",
    "resnet8_cifar10_int8.tflite",
    "str_ww_ref_model.tflite",
    "toycar_ae_hybrid.tflite",
    "vww_96_int8.tflite",
)
REFUSED = {
    "audio_preprocessor_int8.tflite": "custom operator SignalWindow",
    "custom_op_FillFrom.tflite": "custom operator FillFrom",
    "keyword_scrambled_svdf_int8.tflite": "LiteRT crashes",
    "nl_classifier_string_ops.tflite": "string input",
    "person_detect.tflite": "a bias names dimension 3 for its one scale",
    "person_detect_vela.tflite": "custom operator ethos-u",
    "posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite": "custom operator PosenetDecoderOp",
}

# LiteRT 2.3.0 ignores the per-channel scale of these (`golden_note` in the corpus' index);
# tests/backends/cpu/test_peer_errors.py judges them by real arithmetic.
PEER_IS_WRONG = frozenset(
    {
        "static_w8_a16_attn_vec_einsum.tflite",
        "static_w8_a16_q_einsum.tflite",
        "LiteRT__test_testdata_static_w8_a16_quantized_k_einsum.tflite",
        "LiteRT__test_testdata_static_w8_a16_quantized_v_einsum.tflite",
        "ONE_recipe__FullyConnected_U8_000.tflite",  # see EXCEPTIONS in tests/conformance.py
    }
)
SMALL_REFUSED = {
    "LiteRT__test_testdata_simple_ceil_op.tflite": "no reference kernel for CEIL",
    "LiteRT__test_testdata_simple_elu_op.tflite": "no reference kernel for ELU",
    "LiteRT__test_testdata_simple_round_op.tflite": "no reference kernel for ROUND",
    "LiteRT__tflite_testdata_conv3d_huge_im2col.tflite": "its golden has no inputs",
    "ONE_recipe__ELU_000.tflite": "no reference kernel for ELU",
    "ONE_recipe__Round_000.tflite": "no reference kernel for ROUND",
}
PARTS = 8


def assert_replays(name: str, case: str = "rand") -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is the judge")
    path = corpus(f"models/{name}")
    try:
        rows = replay(path, case)
    except PeerRefusedError:
        assert name in REFUSED
        pytest.skip(f"LiteRT refuses {name}: {REFUSED[name]}")
    assert [row for row in rows if row.mismatches] == []


@pytest.mark.parametrize("name", FAST)
def test_every_operator_repeats_the_peer(name: str) -> None:
    assert_replays(name)


@pytest.mark.slow
@each("name", [n for n in models() if n not in FAST and n not in PEER_IS_WRONG])
def test_every_operator_of_larger_models_repeats_the_peer(name: str) -> None:
    assert_replays(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mobilenet_v1_0.25_224_quant.tflite", "mobilenet_v2_1.0_224_quant.tflite"]
)
def test_pictures_replay_as_random_data_do(name: str) -> None:
    assert golden_inputs(corpus(f"models/{name}"), "img") is not None
    assert_replays(name, "img")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_small_networks_replay(part: int) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is the judge")
    broken: dict[str, list[Row]] = {}
    refused = set()
    for entry in list(index("singleop/index.json")["models"].values())[part::PARTS]:
        path = corpus(f"singleop/{entry['file']}")
        if not entry.get("runs_in_peer") or path.name in PEER_IS_WRONG:
            continue
        try:
            rows = replay(path)
        except PeerRefusedError:
            refused.add(path.name)
            continue
        if any(row.mismatches for row in rows):
            broken[path.name] = [row for row in rows if row.mismatches]
    assert broken == {}
    assert refused <= SMALL_REFUSED.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PEER_IS_WRONG))
def test_where_the_peer_is_wrong_it_still_differs(name: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is the judge")
    folder = "models" if name in models() else "singleop/models"
    assert any(row.mismatches for row in replay(corpus(f"{folder}/{name}")))


def test_a_network_that_the_peer_refuses_matches_its_golden() -> None:
    path = corpus("models/person_detect.tflite")
    inputs = golden_inputs(path, "rand")
    assert inputs is not None
    (result,) = evaluate(load(path).main, inputs)
    with np.load(corpus("golden/person_detect.tflite.npz")) as golden:
        np.testing.assert_array_equal(result, golden["rand/out/0"])


def test_the_command_reports_each_kind_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is the judge")
    path = corpus("models/hello_world_int8.tflite")
    assert main([str(path), "--json"]) == 0
    (kind,) = json.loads(capsys.readouterr().out)["kinds"]
    assert (kind["kind"], kind["ops"], kind["values"]) == ("FULLY_CONNECTED", 3, 33)


def test_the_command_tells_a_refusal_from_a_mismatch(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is the judge")
    assert main([str(corpus("models/custom_op_FillFrom.tflite"))]) == 2
    assert "FillFrom" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("actual", "wanted", "expected"),
    [
        (np.array([1, 2], np.int8), np.array([1, 4], np.int8), (1, 2.0)),
        (np.array([1, 2], np.int8), np.array([1, 2], np.uint8), (2, np.inf)),
        (np.array([1, np.nan], np.float32), np.array([1, np.nan], np.float32), (0, 0.0)),
        (
            np.array([100.0005], np.float32),
            np.array([100], np.float32),
            (0, pytest.approx(5e-6, rel=0.05)),
        ),
        (np.array([0.5], np.float32), np.array([0.6], np.float32), (1, pytest.approx(0.1))),
        (
            np.array([np.nan], np.float32),
            np.array([1], np.float32),
            (1, pytest.approx(np.nan, nan_ok=True)),
        ),
    ],
)
def test_integers_compare_by_step_and_floats_by_measure(
    actual: np.ndarray, wanted: np.ndarray, expected: tuple[int, float]
) -> None:
    assert compare(actual, wanted) == expected


def test_the_summary_adds_up_rows_of_one_kind() -> None:
    rows = [Row(i, "CONV_2D", "t", f"op{i}", values=10, mismatches=i) for i in range(3)]
    (line,) = summary(rows)
    assert (line["ops"], line["values"], line["mismatches"]) == (3, 30, 3)
