"""What a report says of networks whose costs, links and memory can be worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from circlet.commands.report import Made, ReportRequest, make_report
from circlet.errors import FormatError, InputError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.options import Options
from circlet.report.compare import compare
from circlet.report.data import Report
from circlet.report.page import data_text
from circlet.report.read import reports_in
from tests import corpora
from tests.cli.call import as_json, circlet
from tests.report.networks import CHANNELS, SIDE, blocks, reported

MACS = SIDE * SIDE * CHANNELS * CHANNELS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return reported(tmp_path_factory.mktemp("report"), blocks())


@pytest.fixture(scope="module")
def report(made: Made) -> Report:
    return made.reports[0]


def test_the_graph_of_the_file_is_as_the_file_has_it(report: Report) -> None:
    operators = report.source.operators
    assert [(op.kind, op.path, op.macs) for op in operators] == [
        ("CONV_2D", ("block_1",), MACS),
        ("RELU", ("block_1",), 0),
        ("CONV_2D", ("block_2",), MACS),
        ("RELU", ("block_2",), 0),
        ("SOFTMAX", (), 0),
    ]
    tensors = report.source.tensors
    assert [tensors[number].name for number in operators[0].inputs] == [
        "x",
        "net/block_1/conv/weights",
        "net/block_1/conv/bias",
    ]
    assert tensors[operators[0].inputs[0]].shape == (1, SIDE, SIDE, CHANNELS)
    assert tensors[report.source.outputs[0]].name == "net/softmax"
    assert report.weights_bytes == 2 * 4 * (CHANNELS * CHANNELS + CHANNELS)


def test_what_runs_leads_back_to_the_file(report: Report) -> None:
    assert report.optimised is not None
    sources = [set(op.sources) for op in report.optimised.operators]
    assert set.union(*sources) == {0, 1, 2, 3, 4}
    assert {0, 1} in sources  # the activation is computed with the convolution
    for op in report.optimised.operators:
        steps = [report.partitions[op.partition].steps[step] for step in op.steps]
        assert steps
        assert all(report.optimised.operators[step.operator] is op for step in steps)
        assert all("kernel_0" in report.codes[step.code] for step in steps)
        header = report.codes[steps[0].code].split("<")[1].split(">")[0]
        assert steps[0].kernel.split("(")[0] in report.headers[header]


def test_buffers_lie_apart_and_within_the_arena(report: Report) -> None:
    (part,) = report.partitions
    alive = [0] * len(part.steps)
    for index, block in enumerate(part.blocks):
        assert 0 <= block.offset <= part.arena_bytes - block.size_bytes
        for step in range(block.first, block.last + 1):
            alive[step] += block.size_bytes
        for other in part.blocks[:index]:
            together = block.first <= other.last and other.first <= block.last
            ends = block.offset + block.size_bytes, other.offset + other.size_bytes
            assert not together or ends[0] <= other.offset or ends[1] <= block.offset
    assert max(alive) == part.lower_bound_bytes
    assert report.optimised is not None
    for op in report.optimised.operators:
        assert op.alive_bytes == max(alive[step] for step in op.steps)


def test_times_of_operators_kernels_and_the_file_agree(report: Report) -> None:
    assert report.optimised is not None
    of_file = sum(op.us or 0.0 for op in report.source.operators)
    of_plan = sum(op.us or 0.0 for op in report.optimised.operators)
    of_steps = sum(step.us or 0.0 for part in report.partitions for step in part.steps)
    assert of_file == pytest.approx(of_plan) == pytest.approx(of_steps)
    assert of_file > 0
    assert report.timing is not None
    assert report.timing.run_us > 0
    assert report.roofs[0].name == "fp32"


def test_sizes_are_those_that_are_asked_for(tmp_path: Path) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, CHANNELS))
    model, options = tmp_path / "m.tflite", Options(shapes=(("x", (7, CHANNELS)),))
    model.write_bytes(dumps(b.output(b.op("SOFTMAX", [x], name="y")).model(), "tflite"))
    request = ReportRequest((model,), tmp_path / "m.html", runs=1, options=options)
    (report,) = make_report(request).reports
    assert report.optimised is not None
    for graph in (report.source, report.optimised):
        assert {tensor.shape for tensor in graph.tensors} == {(7, CHANNELS)}
        assert graph.operators[0].us


def test_a_network_that_was_not_run_has_no_times(tmp_path: Path) -> None:
    (report,) = reported(tmp_path, blocks(), runs=0).reports
    assert report.timing is None
    assert report.optimised is not None
    assert {op.us for op in (*report.source.operators, *report.optimised.operators)} == {None}


def test_a_page_is_read_back_as_it_was_written(made: Made) -> None:
    text = Path(made.output).read_text(encoding="utf-8")
    assert reports_in(text, made.output) == list(made.reports)
    assert reports_in(data_text(made.reports), "json") == list(made.reports)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("{}", "reports"),
        ("<!doctype html>", "Expecting"),
        ('{"reports": [{"schema": 1}]}', "title"),
        ('{"reports": [{"schema": 999}]}', "version"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_what_is_no_report_is_refused(data: str, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        reports_in(data, "x.html")


def test_a_field_of_another_type_is_refused(made: Made) -> None:
    data = json.loads(data_text(made.reports))
    data["reports"][0]["source"]["operators"][0]["macs"] = "many"
    with pytest.raises(FormatError, match="str where"):
        reports_in(json.dumps(data), "x.html")


def test_names_cannot_leave_the_data(tmp_path: Path) -> None:
    made = reported(tmp_path, blocks(start="</script><script>alert(1)</script><!--"), runs=0)
    text = Path(made.output).read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert reports_in(text, "x") == list(made.reports)


def test_operators_are_matched_by_name(tmp_path: Path) -> None:
    (first,) = reported(tmp_path, blocks(2), "first", runs=0).reports
    (second,) = reported(tmp_path, blocks(3), "second", runs=0).reports
    pairs = compare(first, second).pairs
    both = [pair.name for pair in pairs if pair.first is not None and pair.second is not None]
    assert both == [op.name for op in first.source.operators]
    added = [(pair.name, pair.first, pair.second) for pair in pairs if pair.first is None]
    assert added == [("net/block_3/conv", None, 4), ("net/block_3/relu", None, 5)]


def test_pages_and_models_are_compared(tmp_path: Path, made: Made) -> None:
    model = tmp_path / "other.tflite"
    model.write_bytes(blocks(3))
    request = ReportRequest((Path(made.output), model), tmp_path / "both.html", runs=0)
    both = make_report(request)
    assert both.reports[0] == made.reports[0]
    assert both.comparison is not None
    assert len(both.comparison.pairs) == 7
    again = ReportRequest((request.output, model), tmp_path / "three.html", runs=0)
    with pytest.raises(InputError, match="two reports can be compared"):
        make_report(again)


@pytest.mark.smoke
def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    model, target = tmp_path / "m.tflite", tmp_path / "m.html"
    model.write_bytes(blocks())
    result = circlet("report", model, "-o", target, "--runs", "0")
    assert result.exit_code == 0
    assert f"{target.stat().st_size:,} bytes" in result.output
    assert "m.tflite: 5 operators, 3 fused operators" in result.output
    told = as_json("report", model, "-o", target, "--runs", "0")
    assert len(told["reports"][0]["source"]["operators"]) == 5
    assert told["comparison"] is None


def test_a_source_is_not_written_over(tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(blocks())
    result = circlet("report", model, "-o", model)
    assert result.exit_code == 1
    assert "this file is read, too" in result.output
    assert model.read_bytes() == blocks()


def test_operators_that_nothing_runs_are_shown(tmp_path: Path) -> None:
    model = corpora.corpus("models/custom_op_FillFrom.tflite")
    (report,) = make_report(ReportRequest((model,), tmp_path / "x.html")).reports
    assert report.optimised is None
    ((kind, _, reason),) = report.unsupported
    assert kind == report.source.operators[0].kind
    assert reason


def test_an_operator_of_an_onnx_file_is_one(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="pip install 'circlet[onnx]'")
    model = corpora.corpus("models/mnist-8.onnx")
    (report,) = make_report(ReportRequest((model,), tmp_path / "x.html", runs=1)).reports
    ids = [op.sources for op in report.source.operators]
    assert len(set(ids)) == len(ids)
    assert report.optimised is not None
    of_file = sum(op.us or 0.0 for op in report.source.operators)
    of_plan = sum(op.us or 0.0 for op in report.optimised.operators)
    assert of_file == pytest.approx(of_plan)


@corpora.each_model(others=pytest.mark.release)
def test_every_public_model_has_a_page(name: str, tmp_path: Path) -> None:
    path = corpora.corpus(f"models/{name}")
    made = make_report(ReportRequest((path,), tmp_path / "x.html", runs=0))
    assert reports_in(Path(made.output).read_text(encoding="utf-8"), name) == list(made.reports)
    assert made.reports[0].source.operators
