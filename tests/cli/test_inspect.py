"""`circlet inspect`: numbers that can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet import profile
from circlet.cli.render_artifact import show_tuning
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from tests import corpora
from tests.cli.call import as_json, circlet
from tests.runtime import networks
from tests.windows import conv2d_attrs

POINT = conv2d_attrs("SAME", 1, 1)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A 1x1 convolution of 8x8x2 to 8x8x4, then RELU."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 8, 8, 2))
    weights = b.constant("weights", np.ones((4, 1, 1, 2), np.float32))
    bias = b.constant("bias", np.zeros(4, np.float32))
    y = b.op("CONV_2D", [x, weights, bias], conv2d_attrs("SAME", 1, 1), name="conv")
    path = tmp_path / "model.tflite"
    path.write_bytes(dumps(b.output(b.op("TANH", [y], name="y")).model(), "tflite"))
    return path


def test_operators_are_counted_and_weighed(model: Path) -> None:
    report = as_json("inspect", model)
    kinds = {row["kind"]: row for row in report["kinds"]}
    assert {kind: (row["count"], row["macs"]) for kind, row in kinds.items()} == {
        "CONV_2D": (1, 8 * 8 * 4 * 2),
        "TANH": (1, 0),
    }
    assert report["macs"] == 8 * 8 * 4 * 2
    assert kinds["TANH"]["operations"] >= 8 * 8 * 4 and not kinds["CONV_2D"]["operations"]
    assert kinds["CONV_2D"]["macs_share"] == 1
    assert sum(row["bytes_share"] for row in report["kinds"]) == pytest.approx(1)
    assert [row["source"] for row in report["operators"]] == ["conv", "y"]


def test_tensors_and_weights_are_listed(model: Path) -> None:
    report = as_json("inspect", model)
    roles = {row["name"]: (row["role"], row["size_bytes"]) for row in report["tensors"]}
    assert roles["x"] == ("input", 8 * 8 * 2 * 4)
    assert roles["weights"] == ("constant", 32)
    assert roles["conv"] == ("computed", 8 * 8 * 4 * 4)
    assert report["weights"] == [{"dtype": "FLOAT32", "count": 2, "size_bytes": 48}]


def test_memory_is_the_exact_plan_with_its_peak(model: Path) -> None:
    (row,) = as_json("inspect", model)["memory"]
    assert row["lower_bound_bytes"] <= row["arena_bytes"]
    assert sum(size for _, size in row["peak_tensors"]) == row["lower_bound_bytes"]
    assert row["peak_op"] in ("conv", "y")
    assert row["lower_bound_bytes"] >= 8 * 8 * 4 * 4


def test_layers_that_run_stripe_by_stripe_are_listed(tmp_path: Path) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 96, 96, 4))
    wide = b.op(
        "CONV_2D", [x, b.constant("w", np.ones((16, 1, 1, 4), np.float32))], POINT, name="a"
    )
    y = b.op(
        "CONV_2D", [wide, b.constant("v", np.ones((2, 1, 1, 16), np.float32))], POINT, name="b"
    )
    path = tmp_path / "model.tflite"
    path.write_bytes(dumps(b.output(y).model(), "tflite"))
    (whole,), (row,) = (as_json("inspect", path, "-O", o)["memory"] for o in ("O2", "Os"))
    assert whole["arena_bytes"] - row["arena_bytes"] == 96 * 96 * 16 * 4
    assert row["stripes"] == [["a+b", 32, 3 * 96 * 16 * 4]] and not whole["stripes"]
    assert row["scratch_bytes"] >= 3 * 96 * 16 * 4
    assert "a+b: 32 stripes" in circlet("inspect", path, "-O", "Os").output


def test_the_plan_is_that_of_compile(tmp_path: Path) -> None:
    path = corpora.corpus("models/kws_dscnn_int8.tflite")
    compiled = as_json("compile", path, "-o", tmp_path / "x.circlet", "--target", "native")
    (row,) = as_json("inspect", path)["memory"]
    assert row["arena_bytes"] == compiled["arena_bytes"]
    assert row["lower_bound_bytes"] == compiled["lower_bound_bytes"]


def test_placement_comes_with_reasons(model: Path) -> None:
    report = as_json("inspect", model, "--backend", "reference")
    assert {row["backend"] for row in report["placement"]} == {"reference"}
    assert report["memory"] == []
    native = as_json("inspect", model)["placement"]
    assert {(row["kind"], row["refused"]) for row in native} == {("CONV_2D", ""), ("TANH", "")}


def test_a_network_that_cannot_be_run_is_described_all_the_same() -> None:
    path = corpora.corpus("models/custom_op_FillFrom.tflite")
    report = as_json("inspect", path)
    assert [entry["kind"] for entry in report["unsupported"]] == ["CUSTOM:FillFrom"]
    assert "register_op" in as_json("run", path, code=1)["error"]["fix"]
    assert report["kinds"][0]["bytes"] == 80
    assert "Cannot be run" in circlet("inspect", path).stdout


def test_people_get_tables(model: Path) -> None:
    text = circlet("inspect", model, "--operators", "--tensors").stdout
    for word in ("512 multiply-accumulates", "CONV_2D", "weights", "lower bound", "peak at"):
        assert word in text


def test_an_unreadable_file_ends_in_a_code(tmp_path: Path) -> None:
    error = as_json("inspect", tmp_path / "none.tflite", code=1)["error"]
    assert error["code"] == "E-FILE" and "path" in error["fix"]


def test_an_artifact_tells_of_its_tuning(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="an artifact is compiled")
    artifact = tmp_path / "sample.circlet"
    report = as_json("compile", "-o", artifact, "--tune", "--tune-seconds", "0.01")
    (record,) = report["tuning"]
    found = as_json("inspect", artifact)
    (part,) = found["partitions"]
    assert found["targets"] == report["targets"] == [record["target"]]
    assert [value["dtype"] for value in (*found["inputs"], *found["outputs"])] == ["int8", "int8"]
    assert (part["backend"], part["arena_bytes"]) == ("cpu", report["arena_bytes"])
    assert found["tuning"] == [{key: record[key] for key in record if key != "results"}]
    text = circlet("inspect", artifact).stdout
    assert f"tuned for {record['target']}" in text
    assert "output: probabilities  int8[1x10]" in text
    assert record["why"] in text


@pytest.mark.parametrize(("kept", "heading"), [(True, "chosen:"), (False, "not chosen:")])
def test_winners_that_are_not_in_the_code_are_said_not_to_be(
    kept: bool, heading: str, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {"target": "a", "machine": "b", "why": "c", "ratios": {"1": 0.9}}
    show_tuning({**facts, "kept": kept, "settings": {"tile of a layer": "pixels 2, vectors 4"}})
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if line.endswith(":")]
    assert line.endswith(heading) and line.startswith("chosen") == kept
    assert shown.endswith("\n  tile of a layer\n      pixels 2, vectors 4\n")


def test_an_untuned_artifact_says_nothing_of_tuning(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="an artifact is compiled")
    artifact = tmp_path / "sample.circlet"
    assert as_json("compile", "-o", artifact)["tuning"] == []
    assert "tuned for" not in circlet("inspect", artifact).stdout


def test_a_damaged_artifact_and_a_missing_file_end_in_codes(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.circlet"
    damaged.write_bytes(b"CIRCLETA" + bytes(100))
    assert as_json("inspect", damaged, code=1)["error"]["code"] == "E-ARTIFACT"
    assert as_json("inspect", tmp_path / "none", code=1)["error"]["code"] == "E-FILE"


def test_sizes_are_those_that_a_session_settles(tmp_path: Path) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, 4))
    path = tmp_path / "open.tflite"
    path.write_bytes(dumps(b.output(b.op("ABS", [x], name="y", shape=(None, 4))).model(), "tflite"))
    rows = {row["name"]: row for row in as_json("inspect", path)["tensors"]}
    assert rows["x"]["shape"] == rows["y"]["shape"] == [1, 4]
    assert rows["x"]["declared"] == [None, 4]
    assert rows["y"]["size_bytes"] == 16
    assert "1x4" in (text := circlet("inspect", path).stdout) and "?x4" in text


def test_costs_are_those_of_the_sizes_that_a_network_works_for(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="other files state a size beside an open one")
    path = tmp_path / "open.onnx"
    path.write_bytes(networks.open_window())
    shown = as_json("inspect", path, "--target", "baseline")
    rows = {row["name"]: row for row in shown["tensors"]}
    assert rows["x"]["shape"] == [1, 32, 32, 1]  # a window of 3 x 3 does not fit into 1
    assert shown["macs"] == 30 * 30 * 9
    report = as_json("report", path, "-o", tmp_path / "page.html", "--runs", "0")
    macs = [op["macs"] for op in report["reports"][0]["source"]["operators"]]
    assert sum(macs) == shown["macs"]
    assert [row.macs for row in profile(path, threads=1, runs=1).operators] == [shown["macs"]]


def test_costs_are_told_for_other_sizes(model: Path, tmp_path: Path) -> None:
    shape = ("--shape", "x=1,4,8,2")
    whole, half = (as_json("inspect", model, *given) for given in ((), shape))
    assert half["macs"] * 2 == whole["macs"]
    assert half["memory"][0]["arena_bytes"] < whole["memory"][0]["arena_bytes"]
    report = as_json("report", model, "-o", tmp_path / "page.html", "--runs", "0", *shape)
    macs = [op["macs"] for op in report["reports"][0]["source"]["operators"]]
    assert sum(macs) == half["macs"]
    error = as_json("inspect", model, "--shape", "q=1,4,8,2", code=1)["error"]
    assert (error["code"], error["where"]) == ("E-INPUT", "q")


def test_outputs_that_the_file_leaves_open_are_settled() -> None:
    path = corpora.corpus("models/coco_ssd_mobilenet_v1_1.0_quant.tflite")
    outputs = [row for row in as_json("inspect", path)["tensors"] if row["role"] == "output"]
    assert [row["shape"] for row in outputs] == [[1, 10, 4], [1, 10], [1, 10], [1]]


def test_signatures_are_listed() -> None:
    path = corpora.corpus("models/toy_llm_kv_cache_two_signatures.tflite")
    rows = as_json("inspect", path)["signatures"]
    assert len(rows) == 2 and all(row["inputs"] and row["outputs"] for row in rows)
    text = circlet("inspect", path).stdout
    assert all(row["key"] in text for row in rows)


@pytest.fixture(scope="module")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of many operators."""
    b = builder()
    y = b.input("x", DType.FLOAT32, (1, 2))
    for number in range(700):
        y = b.op("ABS", [y], name=f"abs_{number}")
    path = tmp_path_factory.mktemp("long") / "long.tflite"
    path.write_bytes(dumps(b.output(y).model(), "tflite"))
    return path


def test_a_long_table_is_cut_on_a_terminal_and_whole_in_a_pipe(
    long_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = circlet("inspect", long_model, "--operators").stdout
    assert "abs_699" in text and "more;" not in text
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich, a terminal
    monkeypatch.setenv("COLUMNS", "100")
    text = circlet("inspect", long_model, "--operators").stdout
    assert "abs_499" in text and "abs_600" not in text
    assert "and 200 more; --json, or a pipe, shows all" in text
