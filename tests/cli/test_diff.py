"""`circlet diff`: what differs between two networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet.commands.diff import DiffRequest, diff_models
from circlet.commands.diff_values import ValueRequest
from circlet.formats import save
from circlet.ir import DType, Model, Quantization
from circlet.limits import Limits
from circlet.ops.build import builder
from circlet.options import Options
from circlet.passes import pipeline
from tests import corpora
from tests.cli.call import as_json, circlet
from tests.windows import conv2d_attrs


def network(scale: float = 1.0, kind: str = "TANH", stride: int = 1) -> Model:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 4, 4, 2))
    weights = np.arange(16, dtype=np.float32).reshape(8, 1, 1, 2) * np.float32(scale) / 16
    attrs = conv2d_attrs("SAME", stride, stride)
    y = b.op("CONV_2D", [x, b.constant("w", weights), None], attrs, name="conv")
    return b.output(b.op(kind, [b.op("RELU", [y], name="relu")], name="end")).model()


def saved(model: Model, path: Path) -> Path:
    save(model, path)
    return path


REFERENCE = ("--backend", "reference")


@pytest.mark.smoke
def test_a_network_is_the_same_as_itself_in_another_format(tmp_path: Path) -> None:
    first = saved(network(), tmp_path / "a.tflite")
    second = saved(network(), tmp_path / "a.circle")
    report = as_json("diff", first, second, "--random", *REFERENCE)
    assert report["is_same"] and report["recognised"] == {"origin": 3}
    assert [row["measures"]["largest"] for row in report["values"]["rows"]] == [0, 0, 0]
    assert report["values"]["first_different"] is None
    assert circlet("diff", first, second, "--exit-code").exit_code == 0


def test_attributes_kinds_weights_and_costs_are_compared(tmp_path: Path) -> None:
    first = saved(network(), tmp_path / "a.tflite")
    second = saved(network(2.0, "ABS", stride=2), tmp_path / "b.tflite")
    report = as_json("diff", first, second)
    conv, _, end = report["pairs"]
    found = {(d["what"], d["where"]): (d["first"], d["second"]) for d in conv["differences"]}
    assert found["attribute", "strides"] == ("(1, 1)", "(2, 2)")
    assert found["weights", "input 1"] == ("93.8% of 16 elements differ", "by at most 0.9375")
    assert found["shape", "output 0"] == ("1x4x4x8", "1x2x2x8")
    assert found["cost", "MACs"] == ("256", "64")
    assert next(d["what"] for d in end["differences"]) == "kind"
    assert not report["is_same"]
    assert circlet("diff", first, second, "--exit-code").exit_code == 1
    text = circlet("diff", first, second).stdout
    assert "CONV_2D" not in text.split("Differences")[0] and "93.8% of 16" in text


def test_the_first_operator_whose_values_differ_is_named(tmp_path: Path) -> None:
    first = saved(network(), tmp_path / "a.tflite")
    second = saved(network(kind="ABS"), tmp_path / "b.tflite")
    report = as_json("diff", first, second, "--random", "--runs", "2", *REFERENCE)
    values = report["values"]
    assert values["runs"] == 2
    assert values["rows"][values["first_different"]]["source"] == "end"
    assert [row["is_different"] for row in values["rows"]] == [False, False, True]
    text = circlet("diff", first, second, "--random", *REFERENCE).stdout
    assert "the first operator that differs is end (TANH)" in text


def test_an_optimised_network_computes_the_same(tmp_path: Path) -> None:
    model = network()
    pipeline("O2").run(model)
    first = saved(network(), tmp_path / "a.tflite")
    second = saved(model, tmp_path / "b.circle")
    report = as_json("diff", first, second, "--random", *REFERENCE)
    fused, _ = report["pairs"]
    assert [row["kind"] for row in fused["first"]] == ["CONV_2D", "RELU"]
    assert fused["differences"][0]["second"] == "CONV_2D"
    assert report["values"]["first_different"] is None
    assert [row["first"] for row in report["values"]["rows"]] == ["relu", "end"]


def test_values_are_compared_on_given_data(tmp_path: Path) -> None:
    first = saved(network(), tmp_path / "a.tflite")
    second = saved(network(2.0), tmp_path / "b.tflite")
    np.savez(tmp_path / "data.npz", x=np.zeros((1, 4, 4, 2), np.float32))
    np.save(tmp_path / "data.npy", np.ones((1, 4, 4, 2), np.float32))
    zeros = as_json("diff", first, second, "--data", tmp_path / "data.npz", *REFERENCE)
    assert zeros["values"]["first_different"] is None
    ones = as_json("diff", first, second, "--data", tmp_path / "data.npy", *REFERENCE)
    row = ones["values"]["rows"][0]
    # Channel c of the first network is (2c + 2c+1) / 16, of the second twice that.
    errors = [(4 * c + 1) / 16 for c in range(8)]
    assert row["measures"]["largest"] == pytest.approx(max(errors))
    assert row["measures"]["mae"] == pytest.approx(sum(errors) / 8)
    assert row["measures"]["mape"] == pytest.approx(100)
    loose = as_json(
        "diff", first, second, "--data", tmp_path / "data.npy", "--tolerance", "2", *REFERENCE
    )
    assert loose["values"]["first_different"] is None


def test_repeated_and_empty_names_do_not_confuse_it(tmp_path: Path) -> None:
    model = network()
    for op in model.main.ops:
        op.outputs[0].name = ""
    first = saved(model, tmp_path / "a.tflite")
    second = saved(network(), tmp_path / "b.tflite")
    values = as_json("diff", first, second, "--random", *REFERENCE)["values"]
    assert (len(values["rows"]), values["first_different"]) == (3, None)


def test_networks_of_other_inputs_cannot_be_run_side_by_side(tmp_path: Path) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 9, 9, 2))
    second = saved(b.output(b.op("TANH", [x], name="end")).model(), tmp_path / "b.tflite")
    first = saved(network(), tmp_path / "a.tflite")
    error = as_json("diff", first, second, "--random", *REFERENCE, code=1)["error"]
    assert (error["code"], "circlet resize" in error["fix"]) == ("E-INPUT", True)


def test_an_onnx_file_is_compared_with_what_it_was_converted_to(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="it reads .onnx files")
    source, target = corpora.corpus("models/mnist-8.onnx"), tmp_path / "x.tflite"
    as_json("convert", source, target)
    report = as_json("diff", source, target, "--random", *REFERENCE)
    # LiteRT wants a bias of every convolution, so that there are zeros to read.
    assert {d["what"] for pair in report["pairs"] for d in pair["differences"]} == {"cost"}
    (output,) = (row for row in report["values"]["rows"] if row["is_output"])
    assert (output["source"], output["top"]) == ("Plus214", 1)


def test_integers_of_a_file_that_states_no_scales_are_those_of_the_other(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="it writes .onnx files")
    b, scale = builder(), Quantization.per_tensor(0.05, 3)
    x = b.input("x", DType.INT8, (1, 2, 8), scale)
    y = b.op("RELU", [x], quant=Quantization.per_tensor(0.05, 3), name="end")
    source, target = saved(b.output(y).model(), tmp_path / "a.tflite"), tmp_path / "a.onnx"
    as_json("convert", source, target)
    for pair in ((source, target), (target, source)):
        report = as_json("diff", *pair, "--random", *REFERENCE)
        assert report["values"]["first_different"] is None
        assert report["values"]["rows"][-1]["measures"]["largest"] == 0


def test_a_quantised_network_is_near_the_one_of_floats() -> None:
    models = [corpora.corpus(f"models/resnet8_cifar10_{kind}.tflite") for kind in ("int8", "float")]
    report = as_json("diff", *models, "--random", *REFERENCE)
    assert not (report["only_first"] or report["only_second"])
    rows = report["values"]["rows"]
    assert len(rows) == 16 and all(row["measures"]["snr"] > 15 for row in rows)
    assert report["first"]["macs"] == report["second"]["macs"]


def test_data_and_random_data_exclude_each_other(tmp_path: Path) -> None:
    path = saved(network(), tmp_path / "a.tflite")
    assert circlet("diff", path, path, "--random", "--data", path).exit_code == 2


def test_values_that_do_not_fit_into_memory_at_once_are_compared_in_parts(tmp_path: Path) -> None:
    first = saved(network(), tmp_path / "a.tflite")
    second = saved(network(kind="ABS"), tmp_path / "b.tflite")
    options = Options(("reference",), limits=Limits(memory_bytes=8192, memory_per_file_byte=0))
    whole, parted = (
        diff_models(DiffRequest(first, second, given, ValueRequest())).values
        for given in (Options(("reference",)), options)
    )
    assert whole is not None and whole == parted


def test_each_run_of_a_network_with_a_state_starts_afresh() -> None:
    path = corpora.corpus("models/microwakeword_v2_vad.tflite")
    values = as_json("diff", path, path, "--random", "--runs", "2", *REFERENCE)["values"]
    assert values["first_different"] is None and len(values["rows"]) > 20


def test_open_sizes_may_be_given(tmp_path: Path) -> None:
    model = network()
    for tensor in (*model.main.inputs, *model.main.outputs, model.main.ops[0].outputs[0]):
        tensor.shape, tensor.default_shape = (None, None, None, tensor.shape[3]), (1, 1, 1, 2)
    path = saved(model, tmp_path / "a.circle")
    report = as_json("diff", path, path, "--random", "--shape", "x=3,2,2,2", *REFERENCE)
    assert report["is_same"] and len(report["values"]["rows"]) == 3
    error = as_json("diff", path, path, "--random", "--shape", "nix=3", *REFERENCE, code=1)["error"]
    assert (error["code"], error["where"]) == ("E-INPUT", "nix")


def test_values_inside_of_loops_are_those_of_the_last_turn() -> None:
    path = corpora.corpus("models/while_dynamic.tflite")
    report = as_json("diff", path, path, "--random", *REFERENCE)
    assert report["is_same"]
    assert any("while_body" in row["source"] for row in report["values"]["rows"])
